#include "live/machine/cuda_module.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/process.hpp"

namespace orrery::live {
namespace {

constexpr const char* kModule = "liborrery_cuda.so";

CudaProbe read_answer(const std::string& text) {
  CudaProbe probe;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    probe.reason =
        "expected a JSON object from the CUDA module, found another answer; rebuild the module";
    return probe;
  }
  probe.module_loaded = true;
  probe.reason = json.value("reason", "");
  probe.runtime_version = json.value("runtime_version", "");
  probe.driver_version = json.value("driver_version", "");
  probe.nccl_version = json.value("nccl_version", "");
  for (const auto& device : json.value("devices", nlohmann::json::array())) {
    probe.list.push_back({.name = device.value("name", ""),
                          .memory_bytes = device.value("memory_bytes", 0.0),
                          .multiprocessors = device.value("multiprocessors", 0u),
                          .compute_capability = device.value("compute_capability", ""),
                          .pci_address = device.value("pci_address", "")});
  }
  probe.devices = static_cast<std::uint32_t>(probe.list.size());
  return probe;
}

CudaProbe failure(std::string reason) {
  CudaProbe probe;
  probe.reason = std::move(reason);
  return probe;
}

}  // namespace

std::string cuda_module_path() {
  namespace fs = std::filesystem;
  const fs::path programs = fs::path(sibling_program("orrery-live")).parent_path();
  const fs::path beside = programs / kModule;
  return fs::exists(beside) ? beside.string() : (programs.parent_path() / "lib" / kModule).string();
}

const OrreryCudaTable* load_cuda_table(const std::string& module_path, std::string& reason) {
  if (!std::filesystem::exists(module_path)) {
    reason =
        fmt::format("this build has no {} (building needs CUDA 13 or newer and nccl.h)", kModule);
    return nullptr;
  }
  // The module stays loaded: the CUDA runtime keeps state of its own.
  void* handle = dlopen(module_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    reason = fmt::format("cannot load {}: {}", kModule, dlerror());
    return nullptr;
  }
  const auto table =
      reinterpret_cast<const OrreryCudaTable* (*)()>(dlsym(handle, ORRERY_CUDA_TABLE_NAME));
  if (table && table()->version == ORRERY_CUDA_VERSION) return table();
  reason = fmt::format(
      "expected {} of this version of Orrery, found another version; rebuild the module", kModule);
  return nullptr;
}

CudaProbe probe_cuda() { return probe_cuda(cuda_module_path()); }

CudaProbe probe_cuda(const std::string& module_path) {
  std::string reason;
  const OrreryCudaTable* table = load_cuda_table(module_path, reason);
  if (!table) return failure(reason);
  std::array<char, 65536> answer{};
  if (table->probe(answer.data(), answer.size()) != 0) {
    return failure(fmt::format("{} could not search for devices", kModule));
  }
  return read_answer(answer.data());
}

}  // namespace orrery::live
