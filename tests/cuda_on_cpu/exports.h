// What __init__.py writes behind an included source: for each kernel its parameters' types and a
// way to launch it, and the memory that `extern __shared__` names. A part of cuda_on_cpu.h.
#pragma once

namespace cuda_on_cpu {

template <class T> constexpr const char* type_name()
{
    return std::is_pointer_v<T> && sizeof(std::remove_pointer_t<T>) == 2 ? "uint16*" : "?";  // kernels/stored.cuh
}
template <> constexpr const char* type_name<int>() { return "int32"; }
template <> constexpr const char* type_name<unsigned>() { return "uint32"; }
template <> constexpr const char* type_name<long>() { return "int64"; }
template <> constexpr const char* type_name<long long>() { return "int64"; }
template <> constexpr const char* type_name<unsigned long>() { return "uint64"; }
template <> constexpr const char* type_name<float>() { return "float32"; }
template <> constexpr const char* type_name<double>() { return "float64"; }
template <> constexpr const char* type_name<float*>() { return "float32*"; }
template <> constexpr const char* type_name<const float*>() { return "float32*"; }
template <> constexpr const char* type_name<double*>() { return "float64*"; }
template <> constexpr const char* type_name<int*>() { return "int32*"; }
template <> constexpr const char* type_name<const int*>() { return "int32*"; }
template <> constexpr const char* type_name<unsigned*>() { return "uint32*"; }
template <> constexpr const char* type_name<const unsigned*>() { return "uint32*"; }

template <class... P>
const char* parameter(void (*)(P...), size_t index)
{
    const char* names[] = {type_name<P>()..., nullptr};
    return index < sizeof...(P) ? names[index] : nullptr;
}

// Its own loads, of arguments, are nobody's business.
template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) void call(void (*kernel)(P...), void** list,
                                                 std::index_sequence<I...>)
{
    kernel(*static_cast<P*>(list[I])...);
}

template <class... P>
void call(void (*kernel)(P...), void** list)
{
    call(kernel, list, std::index_sequence_for<P...>());
}

struct Launch;
bool launch(const Launch& how, void (*kernel)(void**), void** arguments);

constexpr size_t dynamic_shared_limit = 227 * 1024;  // of a block, on sm_90
void* dynamic_shared();

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_EXPORT extern "C" __attribute__((visibility("default")))
#define CUDA_ON_CPU_KERNEL(name)                                                                   \
    CUDA_ON_CPU_EXPORT const char* cuda_on_cpu_parameter_##name(size_t index)                      \
    {                                                                                              \
        return cuda_on_cpu::parameter(name, index);                                                \
    }                                                                                              \
    CUDA_ON_CPU_EXPORT bool cuda_on_cpu_launch_##name(const cuda_on_cpu::Launch* how, void** list) \
    {                                                                                              \
        return cuda_on_cpu::launch(*how, [](void** l) { cuda_on_cpu::call(name, l); }, list);      \
    }
#define CUDA_ON_CPU_CONSTANT(name) CUDA_ON_CPU_EXPORT int cuda_on_cpu_constant_##name() { return name; }
#define CUDA_ON_CPU_DYNAMIC_SHARED(type, name)                                                     \
    __attribute__((aligned(128)))                                                                  \
    thread_local type name[cuda_on_cpu::dynamic_shared_limit / sizeof(type)];                      \
    void* cuda_on_cpu::dynamic_shared() { return name; }
#define CUDA_ON_CPU_NO_DYNAMIC_SHARED                                                              \
    void* cuda_on_cpu::dynamic_shared() { return nullptr; }
