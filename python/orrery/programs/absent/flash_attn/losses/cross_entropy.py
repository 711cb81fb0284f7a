"""Loss over a vocabulary: that of PyTorch, in the type of the logits."""

from typing import Any

import torch

from orrery_missing import missing_function  # type: ignore[import-not-found]


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):  # type: ignore[misc]
    """Loss with the parameters of flash_attn; its vocabulary must not be divided among ranks."""

    def __init__(
        self, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
        logit_scale: float = 1.0, lse_square_scale: float = 0.0, inplace_backward: bool = False,
        process_group: Any = None, return_z_loss: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
        )
        if process_group is not None or return_z_loss:
            missing_function(__name__, "CrossEntropyLoss(process_group, return_z_loss)")()


def __getattr__(name: str) -> Any:
    return missing_function(__name__, name)
