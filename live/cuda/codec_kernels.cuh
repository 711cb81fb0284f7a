/* Host side of the codec kernels, for module.cpp. Pointers named d_ are device memory. Functions
   return 0 or a cudaError_t. One thread at a time. */
#pragma once

#include "live/cuda/orrery_cuda.h"

int orrery_codec_encode(const OrreryCodec* codec, const float* values, float* residual,
                        float* basis, void* code);
int orrery_codec_decode(const OrreryCodec* codec, const void* code, float* values);
int orrery_codec_speed(const OrreryCodec* codec, OrreryCodecSpeed* speed);
