#include "live/machine/nvml.hpp"

#include <dlfcn.h>

#include <array>

#include <fmt/format.h>

namespace orrery::live {
namespace {

// Constants of NVML's reference manual.
constexpr unsigned kTemperatureOfGpu = 0, kSmClock = 1, kMemoryClock = 2;
constexpr unsigned kUncorrected = 1, kVolatile = 0;
constexpr unsigned long long kXidCriticalError = 8;
constexpr unsigned kMostLinks = 36;

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

struct Nvml::Functions {
  int (*open)();
  int (*close)();
  int (*driver)(char*, unsigned);
  int (*count)(unsigned*);
  int (*device)(unsigned, void**);
  // Functions below may be null: drivers differ.
  int (*device_at)(const char*, void**);
  int (*index)(void*, unsigned*);
  int (*name)(void*, char*, unsigned);
  int (*link)(void*, unsigned, unsigned*);
  int (*utilization)(void*, Utilization*);
  int (*memory)(void*, Memory*);
  int (*power)(void*, unsigned*);
  int (*energy)(void*, unsigned long long*);
  int (*temperature)(void*, unsigned, unsigned*);
  int (*clock)(void*, unsigned, unsigned*);
  int (*ecc)(void*, unsigned, unsigned, unsigned long long*);
  int (*make_events)(void**);
  int (*free_events)(void*);
  int (*register_events)(void*, unsigned long long, void*);
  int (*wait_event)(void*, EventData*, unsigned);

  explicit Functions(void* library) {
    const auto find = [library](const char* symbol, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    };
    find("nvmlInit_v2", open);
    find("nvmlShutdown", close);
    find("nvmlSystemGetDriverVersion", driver);
    find("nvmlDeviceGetCount_v2", count);
    find("nvmlDeviceGetHandleByIndex_v2", device);
    find("nvmlDeviceGetHandleByPciBusId_v2", device_at);
    find("nvmlDeviceGetIndex", index);
    find("nvmlDeviceGetName", name);
    find("nvmlDeviceGetNvLinkState", link);
    find("nvmlDeviceGetUtilizationRates", utilization);
    find("nvmlDeviceGetMemoryInfo", memory);
    find("nvmlDeviceGetPowerUsage", power);
    find("nvmlDeviceGetTotalEnergyConsumption", energy);
    find("nvmlDeviceGetTemperature", temperature);
    find("nvmlDeviceGetClockInfo", clock);
    find("nvmlDeviceGetTotalEccErrors", ecc);
    find("nvmlEventSetCreate", make_events);
    find("nvmlEventSetFree", free_events);
    find("nvmlDeviceRegisterEvents", register_events);
    find("nvmlEventSetWait_v2", wait_event);
  }
  bool usable() const { return open && close && driver && count && device; }
  bool has_events() const { return make_events && free_events && register_events && wait_event; }
};

namespace {

/// Returns the answer of `function` times `unit`; nothing if the driver lacks the function or
/// reports an error.
template <class Value, class Function, class... Given>
std::optional<double> ask(Function* function, double unit, void* device, Given... given) {
  Value value{};
  if (!function || function(device, given..., &value) != 0) return std::nullopt;
  return static_cast<double>(value) * unit;
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open(const std::string& library, std::string& reason) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    reason = fmt::format("{} was not found: the NVIDIA driver is not installed", library);
    return nullptr;
  }
  auto functions = std::make_unique<Functions>(handle);
  if (!functions->usable()) {
    reason = fmt::format("{} lacks functions of NVML", library);
    return nullptr;
  }
  if (const int status = functions->open(); status != 0) {
    reason = fmt::format("NVML does not start (error {})", status);
    return nullptr;
  }
  reason.clear();
  return std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {
  if (!functions_->has_events() || functions_->make_events(&events_) != 0) {
    events_ = nullptr;
    return;
  }
  for (std::uint32_t gpu = 0; gpu < gpus(); ++gpu) {
    functions_->register_events(device(gpu), kXidCriticalError, events_);
  }
}

Nvml::~Nvml() {
  if (events_) functions_->free_events(events_);
  functions_->close();
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  return functions_->driver(text.data(), text.size()) == 0 ? text.data() : "";
}

std::uint32_t Nvml::gpus() const {
  unsigned count = 0;
  return functions_->count(&count) == 0 ? count : 0;
}

void* Nvml::device(std::uint32_t gpu) const {
  void* device = nullptr;
  return functions_->device(gpu, &device) == 0 ? device : nullptr;
}

std::uint32_t Nvml::links_up(std::uint32_t gpu) const {
  void* const which = device(gpu);
  std::uint32_t up = 0;
  for (unsigned link = 0; which && functions_->link && link < kMostLinks; ++link) {
    unsigned active = 0;
    if (functions_->link(which, link, &active) != 0) break;
    up += active;
  }
  return up;
}

std::optional<std::uint32_t> Nvml::find(const std::string& pci_address) const {
  void* which = nullptr;
  unsigned index = 0;
  const bool known = functions_->device_at && functions_->index &&
                     functions_->device_at(pci_address.c_str(), &which) == 0 &&
                     functions_->index(which, &index) == 0;
  return known ? std::optional(index) : std::nullopt;
}

void Nvml::take_events() {
  EventData event{};
  while (events_ && functions_->wait_event(events_, &event, 0) == 0) {
    if (event.type == kXidCriticalError) xid_[event.device] = event.data;
  }
}

NvmlReading Nvml::read(std::uint32_t gpu) {
  NvmlReading reading;
  void* const which = device(gpu);
  if (!which) return reading;
  const Functions& ask_for = *functions_;
  std::array<char, 96> name{};
  if (ask_for.name && ask_for.name(which, name.data(), name.size()) == 0) {
    reading.name = name.data();
  }
  Utilization utilization{};
  if (ask_for.utilization && ask_for.utilization(which, &utilization) == 0) {
    reading.utilization = utilization.gpu / 100.0;
    reading.memory_bandwidth = utilization.memory / 100.0;
  }
  Memory memory{};
  if (ask_for.memory && ask_for.memory(which, &memory) == 0) {
    reading.memory_used = static_cast<double>(memory.used);
  }
  reading.power = ask<unsigned>(ask_for.power, 1e-3, which);
  reading.energy = ask<unsigned long long>(ask_for.energy, 1e-3, which);
  reading.temperature = ask<unsigned>(ask_for.temperature, 1, which, kTemperatureOfGpu);
  reading.sm_clock = ask<unsigned>(ask_for.clock, 1e6, which, kSmClock);
  reading.memory_clock = ask<unsigned>(ask_for.clock, 1e6, which, kMemoryClock);
  unsigned long long errors = 0;
  if (ask_for.ecc && ask_for.ecc(which, kUncorrected, kVolatile, &errors) == 0) {
    reading.uncorrected_ecc_errors = errors;
  }
  take_events();
  if (const auto found = xid_.find(which); found != xid_.end()) reading.xid = found->second;
  return reading;
}

std::vector<std::pair<std::string, double>> dcgm_fields(const NvmlReading& reading) {
  std::vector<std::pair<std::string, double>> fields;
  const auto add = [&](const char* name, const auto& value, double unit) {
    if (value) fields.emplace_back(name, static_cast<double>(*value) / unit);
  };
  add("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", reading.uncorrected_ecc_errors, 1);
  add("DCGM_FI_DEV_FB_USED", reading.memory_used, 1 << 20);
  add("DCGM_FI_DEV_GPU_TEMP", reading.temperature, 1);
  add("DCGM_FI_DEV_GPU_UTIL", reading.utilization, 0.01);
  add("DCGM_FI_DEV_MEM_CLOCK", reading.memory_clock, 1e6);
  add("DCGM_FI_DEV_MEM_COPY_UTIL", reading.memory_bandwidth, 0.01);
  add("DCGM_FI_DEV_POWER_USAGE", reading.power, 1);
  add("DCGM_FI_DEV_SM_CLOCK", reading.sm_clock, 1e6);
  add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", reading.energy, 1e-3);
  add("DCGM_FI_DEV_XID_ERRORS", reading.xid, 1);
  return fields;
}

}  // namespace orrery::live
