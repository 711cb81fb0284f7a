// The GPU's device against the CPU's: on the module where there is a GPU (skipped, with the reason,
// where not), and always on the same steps carried out by the CPU behind the same functions.
#include "live/training/cuda_device.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/cuda/why.hpp"
#include "tests/live/check_gradient.hpp"
#include "tests/live/cuda/flips_on_device.hpp"
#include "tests/live/cuda/host_machine.hpp"

#ifndef ORRERY_CUDA_MODULE
#define ORRERY_CUDA_MODULE "liborrery_cuda.so"
#endif

struct OrreryTransformer {
  explicit OrreryTransformer(const OrreryShape& s)
      : step(machine, {s.layers, s.hidden, s.heads, s.wide, s.vocabulary}) {}
  float* part(OrreryPart which) {
    float* const parts[] = {step.parameters, step.gradient, step.mean, step.square};
    return parts[which];
  }
  orrery::live::gpu::HostMachine machine;
  orrery::live::gpu::TransformerStep<orrery::live::gpu::HostMachine> step;
};

namespace orrery::live {
namespace {

/// The module's functions without a GPU.
OrreryCudaTable table_on_host() {
  OrreryCudaTable table{};
  table.why = [] { return gpu::why().c_str(); };
  table.transformer_open = [](const OrreryShape* shape, int, OrreryTransformer** out) {
    return gpu::guarded([&] { *out = new OrreryTransformer(*shape); });
  };
  table.transformer_close = [](OrreryTransformer* model) { delete model; };
  table.transformer_size = [](const OrreryTransformer* model) { return model->step.size(); };
  table.transformer_write = [](OrreryTransformer* model, OrreryPart which, const float* values) {
    std::copy_n(values, model->step.size(), model->part(which));
    return 0;
  };
  table.transformer_read = [](OrreryTransformer* model, OrreryPart which, float* values) {
    std::copy_n(model->part(which), model->step.size(), values);
    return 0;
  };
  table.transformer_zero_gradient = [](OrreryTransformer* model) {
    std::fill_n(model->step.gradient, model->step.size(), 0.0F);
    return 0;
  };
  table.transformer_accumulate = [](OrreryTransformer* model, const uint8_t* bytes,
                                    uint64_t sequences, uint64_t length, double* loss) {
    return gpu::guarded([&] { *loss = model->step.accumulate_gradient(bytes, sequences, length); });
  };
  table.transformer_update = [](OrreryTransformer* model, float rate, float scale,
                                OrreryChecksum* change) {
    return gpu::guarded([&] {
      const gpu::WordSums sums = model->step.update(rate, scale);
      *change = {sums.sum, sums.weighted};
    });
  };
  table.transformer_checksum = [](OrreryTransformer* model, OrreryChecksum* state) {
    return gpu::guarded([&] {
      const gpu::WordSums sums = model->step.state_sums();
      *state = {sums.sum, sums.weighted};
    });
  };
  return table;
}

void expect_near(std::span<const float> found, std::span<const float> expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-4F + 1e-3F * std::abs(expected[i])) << "at " << i;
  }
}

void expect_trains_as_the_cpu(Device& gpu_device) {
  const auto cpu = make_cpu_device(7, 0.003, "transformer");
  EXPECT_EQ(gpu_device.parameters_sha256(), cpu->parameters_sha256());
  const auto bytes = sample_bytes(2 * 33), other = sample_bytes(50);
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    for (Device* device : {&gpu_device, cpu.get()}) device->zero_gradient();
    for (const Batch& batch : {Batch{.bytes = bytes, .sequences = 2}, Batch{.bytes = other}}) {
      EXPECT_NEAR(gpu_device.accumulate_gradient(batch), cpu->accumulate_gradient(batch), 0.05);
    }
    if (step == 0) expect_near(gpu_device.gradient(), cpu->gradient());
    for (Device* device : {&gpu_device, cpu.get()}) {
      for (float& value : device->gradient()) value *= 2;  // same as an all-reduce of two
      device->update(1.0F / 226, 1);
    }
  }
  EXPECT_EQ(gpu_device.gather_count().used, cpu->gather_count().used);
  EXPECT_EQ(gpu_device.gather_count().read, cpu->gather_count().read);
  EXPECT_LT(gpu_device.accumulate_gradient({.bytes = other}) / 49, 5.0);
}

TEST(CudaDevice, TrainsAsTheCpuDoes) {
  std::string reason;
  const auto device = make_cuda_device(ORRERY_CUDA_MODULE, 0, 7, 0.003, "transformer", reason);
  if (!device) GTEST_SKIP() << reason;
  expect_trains_as_the_cpu(*device);
}

TEST(CudaDevice, ItsStepsCarriedOutByTheCpuTrainAsTheCpusOwn) {
  const OrreryCudaTable table = table_on_host();
  expect_trains_as_the_cpu(*make_cuda_device(table, 0, 7, 0.003));
}

TEST(CudaDevice, WhatIsWrittenIntoItsGradientIsWhatMoreIsAddedTo) {
  const OrreryCudaTable table = table_on_host();
  const auto device = make_cuda_device(table, 0, 7, 0.003);
  const auto bytes = sample_bytes(20);
  device->zero_gradient();
  device->accumulate_gradient({.bytes = bytes});
  const float once = device->gradient()[0];
  device->gradient()[0] = once + 1;
  device->accumulate_gradient({.bytes = bytes});
  EXPECT_NEAR(device->gradient()[0], 2 * once + 1, 1e-5F);
}

TEST(CudaDevice, AReplacementGoesOnWithThePeersStateOnEitherKindOfDevice) {
  const OrreryCudaTable table = table_on_host();
  const auto one = make_cuda_device(table, 0, 7, 0.003);
  const auto other = make_cuda_device(table, 0, 8, 0.003);
  const auto cpu = make_cpu_device(9, 0.003, "transformer");
  const auto bytes = sample_bytes(20);
  one->accumulate_gradient({.bytes = bytes});
  one->update(0.05F, 1);
  for (Device* device : {other.get(), cpu.get()}) {
    EXPECT_NE(device->parameters_sha256(), one->parameters_sha256());
    device->set_state(one->state());
    EXPECT_EQ(device->parameters_sha256(), one->parameters_sha256());
    EXPECT_EQ(device->state(), one->state());
  }
  EXPECT_THROW(other->set_state("short"), Error);
}

TEST(CudaDevice, ABitThatFlipsInTheDevicesMemoryIsFound) {
  const WatchedModule module(table_on_host());
  const auto device = make_cuda_device(module.table, 0, 7, 0.003);
  EXPECT_EQ(count_found_flips(module, *device, 30), 30);
}

TEST(CudaDevice, DamageBeforeAnUpdateIsFoundAfterIt) {
  const WatchedModule module(table_on_host());
  const auto device = make_cuda_device(module.table, 0, 7, 0.003);
  const auto bytes = sample_bytes(20);
  device->accumulate_gradient({.bytes = bytes});
  device->update(0.05F, 1);
  ASSERT_TRUE(device->is_state_intact());
  ASSERT_TRUE(module.flip_value(ORRERY_PARAMETERS, 17, 22));
  device->update(0.05F, 1);
  EXPECT_FALSE(device->is_state_intact());
}

TEST(CudaDevice, EqualStatesHaveEqualChecksumsOnEveryKindOfDevice) {
  const OrreryCudaTable table = table_on_host();
  const auto device = make_cuda_device(table, 0, 7, 0.003);
  const auto cpu = make_cpu_device(7, 0.003, "transformer");
  const auto bytes = sample_bytes(20);
  device->accumulate_gradient({.bytes = bytes});
  device->update(0.05F, 1);
  cpu->set_state(device->state());
  ASSERT_TRUE(device->state_checksum().has_value());
  EXPECT_EQ(device->state_checksum(), cpu->state_checksum());
}

TEST(CudaDevice, WhatCannotBeHadHasAReason) {
  std::string reason;
  EXPECT_EQ(make_cuda_device("/no/such/module.so", 0, 1, 0.1, "transformer", reason), nullptr);
  EXPECT_NE(reason.find("liborrery_cuda.so"), std::string::npos);
  EXPECT_THROW(make_cuda_device(ORRERY_CUDA_MODULE, 0, 1, 0.1, "language-model", reason), Error);
}

TEST(CudaDevice, AFailureOfTheGpuIsAnErrorThatSaysWhich) {
  OrreryCudaTable table = table_on_host();
  table.transformer_accumulate = [](OrreryTransformer*, const uint8_t*, uint64_t, uint64_t,
                                    double*) {
    return gpu::guarded([] { throw std::runtime_error("a kernel: out of memory"); });
  };
  const auto device = make_cuda_device(table, 0, 7, 0.003);
  const auto bytes = sample_bytes(20);
  try {
    device->accumulate_gradient({.bytes = bytes});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("a kernel: out of memory"), std::string::npos);
  }
}

}  // namespace
}  // namespace orrery::live
