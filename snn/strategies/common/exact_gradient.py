"""A check of the strategies that compute the gradient by means of their own."""

from snn.errors import Unsupported
from snn.models.network import Network


def check_exact_gradient(network: Network, by: str) -> None:
    """Raise Unsupported where the network is to be trained along something else than its gradient."""
    if network.gradient.name != "exact":
        raise Unsupported(
            f"training.gradient={network.gradient.name} replaces launches of a step, and {by} has a step of "
            "its own: choose training.gradient=exact"
        )
