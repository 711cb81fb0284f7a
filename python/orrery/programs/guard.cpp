// Device guard and hooks for the device type "cuda" in a CPU build of PyTorch, so that fake tensors
// of that device pass through factories and the autograd engine. Compiled by guard.py against the
// headers in the user's own PyTorch, and loaded before `import torch`. The autograd engine is set
// to one thread, but device indices are per thread as in CUDA.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

namespace {

thread_local c10::DeviceIndex current = 0;

/// Returns the number of GPUs of the rehearsed node.
c10::DeviceIndex device_count() {
  const char* const text = std::getenv("LOCAL_WORLD_SIZE");
  return text == nullptr ? 1 : static_cast<c10::DeviceIndex>(std::atoi(text));
}

c10::DeviceIndex exchange(c10::DeviceIndex next) {
  const c10::DeviceIndex old = current;
  if (next >= 0) current = next;
  return old;
}

/// Device guard without a device: streams and events have no effect here, because the Python part
/// keeps their times.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType kType = c10::DeviceType::CUDA;
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device next) const override {
    return {kType, exchange(next.index())};
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device next) const override { exchange(next.index()); }
  void uncheckedSetDevice(c10::Device next) const noexcept override { exchange(next.index()); }
  c10::Stream getStream(c10::Device of) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, of);
  }
  c10::Stream getDefaultStream(c10::Device of) const override { return getStream(of); }
  c10::Stream getNewStream(c10::Device of, int) const override { return getStream(of); }
  c10::Stream exchangeStream(c10::Stream next) const noexcept override { return next; }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

const c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::CUDA, new Guard);

/// Hooks that report initialised devices.
struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex current_device() const override { return current; }
  int getNumGPUs() const override { return device_count(); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex next) const override { exchange(next); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex next) const override { return exchange(next); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex next) const override {
    return exchange(next);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  void deviceSynchronize(c10::DeviceIndex) const override {}
};

}  // namespace

namespace at {
namespace {
const RegistererCUDAHooksRegistry hooks("CUDAHooks", CUDAHooksRegistry(),
                                        RegistererCUDAHooksRegistry::DefaultCreator<Hooks>,
                                        c10::demangle_type<Hooks>());
}
}  // namespace at
