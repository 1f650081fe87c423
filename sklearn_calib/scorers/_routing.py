"""The request for sample weights that a scorer makes when scikit-learn's metadata routing is enabled."""

from typing import Any, Self

from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from sklearn_calib._compat import routing_enabled

__all__ = ["WeightedScorer"]


class WeightedScorer:
    """Base of objects that are called to score, perhaps with weights.

    scikit-learn derives requests from methods with names of its own; a call is none of them.
    """

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Say whether sample weights are wanted; for metadata routing.

        Parameters
        ----------
        sample_weight : bool, str or None
            True: yes. False: no. None: no, and raise if some are given. A string: yes, under that name.

        Returns
        -------
        WeightedScorer
            This object, changed.

        Raises
        ------
        RuntimeError
            If metadata routing is not enabled.
        """
        if not routing_enabled():
            raise RuntimeError(
                "set_score_request needs metadata routing. Enable it by "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        self._metadata_request = self._new_request(sample_weight)
        return self

    def get_metadata_routing(self) -> Any:
        """Return what metadata this scorer asks for.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
        """
        if hasattr(self, "_metadata_request"):
            return get_routing_for_object(self._metadata_request)
        return self._new_request(None) if self._accept_sample_weight() else self._empty_request()

    def _accept_sample_weight(self) -> bool:
        """Tell whether weights can be used; asked by scikit-learn's searches when routing is not enabled."""
        return True

    def _empty_request(self) -> Any:
        return MetadataRequest(owner=type(self).__name__)

    def _new_request(self, sample_weight: bool | str | None) -> Any:
        request = self._empty_request()
        request.score.add_request(param="sample_weight", alias=sample_weight)
        return request
