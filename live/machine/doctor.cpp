#include "live/machine/doctor.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery::live {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Finding find_program(const fs::path& programs, const std::string& name, std::string needed) {
  const fs::path path = programs / name;
  const bool there = fs::exists(path);
  return {name, there, there ? path.string() : fmt::format("not in {}", programs.string()),
          std::move(needed)};
}

Finding find_module(const fs::path& programs, const std::string& name, const std::string& missing,
                    std::string needed) {
  const fs::path beside = programs / name, library = programs.parent_path() / "lib" / name;
  const bool there = fs::exists(beside) || fs::exists(library);
  const std::string where = (fs::exists(beside) ? beside : library).string();
  return {name, there, there ? where : missing, std::move(needed)};
}

Finding find_device(const CudaProbe& cuda) {
  std::string names;
  for (const CudaDevice& device : cuda.list) {
    names += fmt::format("{}{} ({:.0f} GiB)", names.empty() ? "" : ", ", device.name,
                         device.memory_bytes / (1 << 30));
  }
  return {"CUDA device", cuda.devices > 0, cuda.devices > 0 ? names : cuda.reason,
          "training and codecs on GPUs"};
}

Finding find_nccl(const CudaProbe& cuda) {
  if (!cuda.nccl_version.empty()) {
    return {"NCCL", true, cuda.nccl_version, "collectives between GPUs"};
  }
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  const char* const problem = library ? nullptr : dlerror();
  return {"NCCL", library != nullptr, library ? "libnccl.so.2" : (problem ? problem : "not found"),
          "collectives between GPUs"};
}

Finding find_rdma(const Machine& machine) {
  const auto rdma = [](const NetworkCard& card) { return card.infiniband && card.up; };
  const auto count = std::count_if(machine.cards.begin(), machine.cards.end(), rdma);
  return {"RDMA network card", count > 0,
          count > 0 ? fmt::format("{} up", count) : "no InfiniBand or RoCE port is up",
          "NCCL between machines at the speed of their cards"};
}

std::string pci_text(const PciDevice& pci) {
  std::string text = pci.address;
  if (pci.speed) text += fmt::format(", {}", *pci.speed);
  if (pci.lanes) text += fmt::format(" x{}", *pci.lanes);
  if (pci.numa_node) text += fmt::format(", NUMA node {}", *pci.numa_node);
  return text;
}

Json pci_json(const PciDevice& pci) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  return {{"address", pci.address},
          {"link_speed", or_null(pci.speed)},
          {"lanes", or_null(pci.lanes)},
          {"numa_node", or_null(pci.numa_node)}};
}

std::string card_text(const NetworkCard& card) {
  std::string text = fmt::format("  {}: {}{}", card.name, card.infiniband ? "RDMA, " : "",
                                 card.up ? "up" : "down");
  if (card.bits_per_second) text += fmt::format(", {:g} Gbps", *card.bits_per_second / 1e9);
  return text + (card.pci ? fmt::format(", {}\n", pci_text(*card.pci)) : ", no hardware\n");
}

}  // namespace

bool Diagnosis::is_complete() const {
  return std::all_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.present; });
}

Diagnosis diagnose(const std::string& programs, const std::string& sys) {
  const fs::path folder(programs);
  Diagnosis found;
  found.machine = scan_machine(sys);
  found.nvlinks = probe_nvlinks(kNvmlLibrary);
  found.cuda = probe_cuda();
  found.findings.push_back(find_program(folder, "orrery-sim", "simulate"));
  found.findings.push_back(find_program(folder, "orrery-live", "live"));
  found.findings.push_back(find_module(
      folder, "liborrery_cuda.so", "this build found no CUDA 13 toolkit or no nccl.h",
      "everything on GPUs"));
  found.findings.push_back(find_module(folder, "liborrery_nccl_tuner.so", "not built",
                                       "collective tables in other programs' NCCL"));
  const bool driver = found.nvlinks.reason.empty();
  found.findings.push_back({"NVIDIA driver", driver,
                            driver ? found.nvlinks.driver : found.nvlinks.reason,
                            "everything on GPUs; device samples"});
  found.findings.push_back(find_device(found.cuda));
  found.findings.push_back(find_nccl(found.cuda));
  found.findings.push_back(find_rdma(found.machine));
  return found;
}

std::string print_text(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) {
    text += fmt::format("{:<8} {}: {}\n", finding.present ? "ok" : "missing", finding.name,
                        finding.detail);
    if (!finding.present) text += fmt::format("{:<8} needed for: {}\n", "", finding.needed);
  }
  const Machine& machine = diagnosis.machine;
  text += fmt::format("\nGPUs: {}\n", machine.gpus.size());
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    text += fmt::format("  {}: {}", machine.gpus[i].vendor, pci_text(machine.gpus[i].pci));
    const auto& links = diagnosis.nvlinks.active;
    text += i < links.size() ? fmt::format(", {} NVLinks up\n", links[i]) : "\n";
  }
  for (std::size_t i = 0; i < diagnosis.nvlinks.readings.size(); ++i) {
    const NvmlReading& reading = diagnosis.nvlinks.readings[i];
    text += fmt::format("  sample of GPU {} ({}):", i, reading.name);
    for (const auto& [name, value] : dcgm_fields(reading)) {
      text += fmt::format(" {}={:g}", name, value);
    }
    text += '\n';
  }
  text += fmt::format("network cards: {}\n", machine.cards.size());
  for (const NetworkCard& card : machine.cards) text += card_text(card);
  return text + fmt::format("NUMA nodes: {}\n", machine.numa_nodes);
}

std::string print_json(const Diagnosis& diagnosis) {
  Json findings = Json::array(), gpus = Json::array(), cards = Json::array();
  for (const Finding& finding : diagnosis.findings) {
    findings.push_back({{"name", finding.name},
                        {"present", finding.present},
                        {"detail", finding.detail},
                        {"needed_for", finding.needed}});
  }
  for (const Gpu& gpu : diagnosis.machine.gpus) {
    gpus.push_back({{"vendor", gpu.vendor}, {"pci", pci_json(gpu.pci)}});
  }
  for (const NetworkCard& card : diagnosis.machine.cards) {
    cards.push_back(
        {{"name", card.name},
         {"rdma", card.infiniband},
         {"up", card.up},
         {"bits_per_second", card.bits_per_second ? Json(*card.bits_per_second) : Json()},
         {"pci", card.pci ? pci_json(*card.pci) : Json()}});
  }
  Json samples = Json::array();
  for (const NvmlReading& reading : diagnosis.nvlinks.readings) {
    Json& sample = samples.emplace_back(Json::object());
    sample["name"] = reading.name;
    for (const auto& [name, value] : dcgm_fields(reading)) sample[name] = value;
  }
  const Json all = {{"complete", diagnosis.is_complete()},
                    {"findings", findings},
                    {"gpus", gpus},
                    {"nvlinks_up", diagnosis.nvlinks.active},
                    {"gpu_samples", samples},
                    {"network_cards", cards},
                    {"numa_nodes", diagnosis.machine.numa_nodes}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace orrery::live
