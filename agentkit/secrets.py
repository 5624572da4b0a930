"""Keep secrets out of logs, errors and files."""

from .core.masking import MaskedDict, hide, hide_named, mask, mask_data, mask_exception

__all__ = ["MaskedDict", "hide", "hide_named", "mask", "mask_data", "mask_exception"]
