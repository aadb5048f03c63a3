/* Time of the host's work in a step of the authors' programs (training.fidelity), in C as they wrote it.
 *
 * run_all.sh, by which their notebook makes Tables III to V, compiles without -O3; test_neurons.sh and
 * test_network.sh, for Tables VI and VII, with it. This shows what that is worth on a host:
 *
 *     for level in -O0 -O3; do gcc $level -fopenmp benchmarks/authors_loops.c -lm -o /tmp/loops && /tmp/loops; done
 *
 * Products are left out: a function writes zeros instead, which is not timed. Batches of 256 rows, 32 features.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256, FEATURES = 32, STEPS = 50, RUNS = 20 };
typedef struct { int rows, cols; float *data; } Matrix;
static double untimed;

static Matrix *allocate(int rows, int cols) {
  Matrix *m = malloc(sizeof(Matrix));
  *m = (Matrix){rows, cols, malloc(rows * cols * sizeof(float))};
  return m;
}
static void release(Matrix *m) { free(m->data); free(m); }
static Matrix *product(Matrix *A, Matrix *B) {
  double start = omp_get_wtime();
  Matrix *C = allocate(A->rows, B->cols);
  memset(C->data, 0, C->rows * C->cols * sizeof(float));
  untimed += omp_get_wtime() - start;
  return C;
}

#define EACH(m) for (int i = 0; i < (m)->rows; i++) for (int j = 0; j < (m)->cols; j++)
#define AT(m) (m)->data[i * (m)->cols + j]

static void relu(Matrix *Z) { EACH(Z) AT(Z) = fmaxf(0, AT(Z)); }
static float loss(Matrix *P, Matrix *Y) {
  float sum = 0;
  EACH(P) sum += pow(AT(P) - AT(Y), 2);
  return sum / P->rows;
}
static Matrix *subtract(Matrix *A, Matrix *B) {
  Matrix *C = allocate(A->rows, A->cols);
  EACH(C) AT(C) = AT(A) - AT(B);
  return C;
}
static void scale(Matrix *A, float factor) { EACH(A) AT(A) *= factor; }
static Matrix *transpose(Matrix *A) {
  Matrix *T = allocate(A->cols, A->rows);
  EACH(A) T->data[j * T->cols + i] = AT(A);
  return T;
}
static Matrix *derivative(Matrix *H) {
  Matrix *D = allocate(H->rows, H->cols);
  EACH(D) AT(D) = (AT(H) > 0) ? 1 : 0;
  return D;
}
static void multiply(Matrix *A, Matrix *D) { EACH(A) AT(A) *= AT(D); }
static void update(Matrix *W, Matrix *dW, float rate) { EACH(W) AT(W) -= rate * AT(dW); }
static void copy(Matrix *from, Matrix *to) { EACH(to) AT(to) = AT(from); }

static float step(Matrix *X, Matrix *Y, Matrix *W1, Matrix *W2) {
  Matrix *X_batch = allocate(ROWS, FEATURES), *Y_batch = allocate(ROWS, 1);
  copy(X, X_batch), copy(Y, Y_batch);
  Matrix *Z1 = product(X_batch, W1);
  relu(Z1);
  Matrix *P = product(Z1, W2);
  float mse = loss(P, Y_batch);
  Matrix *dZ2 = subtract(P, Y_batch);
  scale(dZ2, 2.0f / ROWS);
  Matrix *Z1_T = transpose(Z1), *dW2 = product(Z1_T, dZ2);
  update(W2, dW2, 0.002f);
  release(dW2), release(Z1_T);
  Matrix *W2_T = transpose(W2), *dZ1 = product(dZ2, W2_T), *D = derivative(Z1);
  multiply(dZ1, D);
  release(D), release(W2_T);
  Matrix *X_T = transpose(X_batch), *dW1 = product(X_T, dZ1);
  update(W1, dW1, 0.002f);
  release(dW1), release(X_T), release(dZ2), release(dZ1), release(Z1), release(P), release(X_batch), release(Y_batch);
  return mse;
}

int main(void) {
  int widths[] = {128, 256, 1024};
  for (int w = 0; w < 3; w++) {
    Matrix *X = allocate(ROWS, FEATURES), *Y = allocate(ROWS, 1);
    Matrix *W1 = allocate(FEATURES, widths[w]), *W2 = allocate(widths[w], 1), *all[] = {X, Y, W1, W2};
    for (int k = 0; k < 4; k++) { Matrix *m = all[k]; EACH(m) AT(m) = 0.5f; }
    double best = 1e9, sum = 0;
    for (int run = 0; run < RUNS; run++) {
      untimed = 0;
      double start = omp_get_wtime();
      for (int k = 0; k < STEPS; k++) sum += step(X, Y, W1, W2);
      double seconds = (omp_get_wtime() - start - untimed) / STEPS;
      if (seconds < best) best = seconds;
    }
    printf("%d neurons: %.0f us a step (loss %g)\n", widths[w], best * 1e6, sum / RUNS / STEPS);
    for (int k = 0; k < 4; k++) release(all[k]);
  }
  return 0;
}
