"""Request of sample weights by scorers, for scikit-learn's metadata routing."""

from typing import Any, Self

from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from sklearn_calib._compat import routing_enabled


class WeightedScorer:
    """Base class of scorers with weights: scikit-learn derives no request from ``__call__``."""

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Request sample weights for metadata routing.

        Parameters
        ----------
        sample_weight : bool, str or None
            True: requested. False: not requested. None: not requested, and an error if weights are given. A
            string: requested under that name.

        Returns
        -------
        WeightedScorer
            This object.

        """
        if not routing_enabled():
            raise RuntimeError(
                "set_score_request needs metadata routing. Enable it by "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        self._metadata_request = self._request(sample_weight)
        return self

    def get_metadata_routing(self) -> Any:
        """Return the metadata request of this scorer."""
        return get_routing_for_object(getattr(self, "_metadata_request", None) or self._request(None))

    @property
    def _score_func(self) -> Any:
        # read by the tuning of thresholds, which evaluates a function of predicted classes
        raise AttributeError(
            f"{type(self).__name__} scores probabilities, which do not depend on the threshold, so that no "
            "threshold can be tuned by it. Calibrate the probabilities, and tune the threshold by a measure "
            "of decisions, such as 'balanced_accuracy' or the costs of errors."
        )

    def _accept_sample_weight(self) -> bool:
        """Tell whether weights are supported; used by scikit-learn's searches when routing is not enabled."""
        return True

    def _request(self, sample_weight: bool | str | None) -> Any:
        request = MetadataRequest(owner=type(self).__name__)
        if self._accept_sample_weight():
            request.score.add_request(param="sample_weight", alias=sample_weight)
        return request
