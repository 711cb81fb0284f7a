// The transformer of live/training/transformer.cpp on a GPU, behind C functions (transformer.cuh).
#include "live/cuda/gpu_machine.cuh"
#include "live/cuda/transformer.cuh"
#include "live/cuda/why.hpp"

using namespace orrery::live::gpu;

struct OrreryTransformer {
  OrreryTransformer(const OrreryShape& s, int device)
      : machine(device), step(machine, {s.layers, s.hidden, s.heads, s.wide, s.vocabulary}) {}
  float* part(OrreryPart which) {
    switch (which) {
      case ORRERY_PARAMETERS: return step.parameters;
      case ORRERY_GRADIENT: return step.gradient;
      case ORRERY_MEAN: return step.mean;
      case ORRERY_SQUARE: return step.square;
    }
    throw std::invalid_argument("a transformer has no such values");
  }
  GpuMachine machine;
  TransformerStep<GpuMachine> step;
};

namespace {

/// Calls guarded() on the transformer's device.
template <class Action>
int on(OrreryTransformer* model, const Action& action) {
  return guarded([&] {
    model->machine.use_device();
    action();
  });
}

/// Seconds of one product of that shape, the mean of `times` after one to warm up.
double time_product(GpuMachine& machine, u64 m, u64 n, u64 k, unsigned times) {
  auto* const a = static_cast<float*>(machine.allocate_bytes(4 * (m * k + k * n + m * n)));
  float* const b = a + m * k;
  float* const c = b + k * n;
  machine.zero(a, 4 * (m * k + k * n + m * n));
  machine.for_each(m * k + k * n, [=] __device__(u64 i) {
    a[i] = static_cast<float>(i * 2654435761u % 1024) / 512.0f - 1.0f;
  });
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  for (unsigned i = 0; i <= times; ++i) {
    if (i == 1) check(cudaEventRecord(begin, machine.stream), "an event");
    machine.multiply_matrices({m, n, k, a, m, false, b, k, false, c, m, 1, 0, 1, 0, 0, 0});
  }
  check(cudaEventRecord(end, machine.stream), "an event");
  check(cudaEventSynchronize(end), "a product");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "an event");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  machine.release(a);
  return milliseconds * 1e-3 / times;
}

}  // namespace

int orrery_transformer_open(const OrreryShape* shape, int device, OrreryTransformer** model) {
  return guarded([&] { *model = new OrreryTransformer(*shape, device); });
}

void orrery_transformer_close(OrreryTransformer* model) { delete model; }

uint64_t orrery_transformer_size(const OrreryTransformer* model) { return model->step.size(); }

int orrery_transformer_write(OrreryTransformer* model, OrreryPart which, const float* values) {
  return on(model, [&] {
    model->machine.upload_bytes(model->part(which), values, 4 * model->step.size());
  });
}

int orrery_transformer_read(OrreryTransformer* model, OrreryPart which, float* values) {
  return on(model, [&] {
    model->machine.download_bytes(values, model->part(which), 4 * model->step.size());
  });
}

int orrery_transformer_zero_gradient(OrreryTransformer* model) {
  return on(model, [&] { model->machine.zero(model->step.gradient, 4 * model->step.size()); });
}

int orrery_transformer_accumulate(OrreryTransformer* model, const uint8_t* bytes,
                                  uint64_t sequences, uint64_t length, double* loss) {
  return on(model, [&] { *loss = model->step.accumulate_gradient(bytes, sequences, length); });
}

int orrery_transformer_update(OrreryTransformer* model, float rate, float scale,
                              OrreryChecksum* change) {
  return on(model, [&] {
    const WordSums sums = model->step.update(rate, scale);
    *change = {sums.sum, sums.weighted};
  });
}

int orrery_transformer_checksum(OrreryTransformer* model, OrreryChecksum* state) {
  return on(model, [&] {
    const WordSums sums = model->step.state_sums();
    *state = {sums.sum, sums.weighted};
  });
}

int orrery_product_time(int device, uint64_t m, uint64_t n, uint64_t k, uint32_t times,
                        double* seconds) {
  return guarded([&] {
    GpuMachine machine(device);
    *seconds = time_product(machine, m, n, k, times > 0 ? times : 1);
  });
}
