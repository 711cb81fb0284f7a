"""Names that programs import from the module of multi-head attention."""

from typing import Any

from ..flash_attn_interface import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from orrery_missing import missing_function  # type: ignore[import-not-found]

__all__ = [
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
]


def __getattr__(name: str) -> Any:
    return missing_function(__name__, name)
