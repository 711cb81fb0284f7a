/* The functions of transformer.cu, for module.cpp; what they do stands in orrery_cuda.h. */
#pragma once

#include "live/cuda/orrery_cuda.h"

int orrery_transformer_open(const OrreryShape* shape, int device, OrreryTransformer** model);
void orrery_transformer_close(OrreryTransformer* model);
uint64_t orrery_transformer_size(const OrreryTransformer* model);
int orrery_transformer_write(OrreryTransformer* model, OrreryPart which, const float* values);
int orrery_transformer_read(OrreryTransformer* model, OrreryPart which, float* values);
int orrery_transformer_zero_gradient(OrreryTransformer* model);
int orrery_transformer_accumulate(OrreryTransformer* model, const uint8_t* bytes,
                                  uint64_t sequences, uint64_t length, double* loss);
int orrery_transformer_update(OrreryTransformer* model, float rate, float scale,
                              OrreryChecksum* change);
int orrery_transformer_checksum(OrreryTransformer* model, OrreryChecksum* state);
int orrery_product_time(int device, uint64_t m, uint64_t n, uint64_t k, uint32_t times,
                        double* seconds);
