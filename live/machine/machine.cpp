#include "live/machine/machine.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

/// Returns the first line of a file of /sys; nothing if the file cannot be read.
std::optional<std::string> line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line.empty()) return std::nullopt;
  return line;
}

template <class Number>
std::optional<Number> number_of(const fs::path& file) {
  const auto line = line_of(file);
  if (!line) return std::nullopt;
  Number value{};
  const auto [end, problem] = std::from_chars(line->data(), line->data() + line->size(), value);
  if (problem != std::errc()) return std::nullopt;
  return value;
}

/// Returns the entries of `folder` in the order of their names; none if the folder does not exist.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

PciDevice read_pci(const fs::path& folder) {
  PciDevice device;
  std::error_code missing;
  const fs::path real = fs::canonical(folder, missing);
  device.address = (missing ? folder : real).filename().string();
  device.speed = line_of(folder / "current_link_speed");
  device.lanes = number_of<std::uint32_t>(folder / "current_link_width");
  device.numa_node = number_of<int>(folder / "numa_node");
  if (device.numa_node && *device.numa_node < 0) device.numa_node.reset();
  return device;
}

std::optional<std::string> gpu_vendor(const fs::path& folder) {
  // Class 03 is display controllers; 0302 is a controller without a display, as in a data centre.
  const std::string kind = line_of(folder / "class").value_or("");
  if (!kind.starts_with("0x0302") && !kind.starts_with("0x0300") && !kind.starts_with("0x1200")) {
    return std::nullopt;
  }
  const std::string vendor = line_of(folder / "vendor").value_or("");
  if (vendor == "0x10de") return "NVIDIA";
  if (vendor == "0x1002") return "AMD";
  if (vendor == "0x8086" && !kind.starts_with("0x0300")) return "Intel";
  return std::nullopt;  // The device is the console of a server.
}

NetworkCard read_ethernet(const fs::path& folder) {
  NetworkCard card;
  card.name = folder.filename().string();
  card.up = line_of(folder / "operstate") == "up";
  const auto megabits = number_of<double>(folder / "speed");  // -1: unknown.
  if (megabits && *megabits > 0) card.bits_per_second = *megabits * 1e6;
  if (fs::exists(folder / "device")) card.pci = read_pci(folder / "device");
  return card;
}

NetworkCard read_infiniband(const fs::path& folder) {
  NetworkCard card;
  card.name = folder.filename().string();
  card.infiniband = true;
  if (fs::exists(folder / "device")) card.pci = read_pci(folder / "device");
  for (const fs::path& port : entries_of(folder / "ports")) {
    card.up |= line_of(port / "state").value_or("").find("ACTIVE") != std::string::npos;
    const auto gigabits = number_of<double>(port / "rate");  // "400 Gb/sec (4X NDR)"
    if (gigabits) card.bits_per_second = card.bits_per_second.value_or(0) + *gigabits * 1e9;
  }
  return card;
}

}  // namespace

Machine scan_machine(const std::string& sys) {
  const fs::path root(sys);
  Machine machine;
  for (const fs::path& folder : entries_of(root / "bus/pci/devices")) {
    if (const auto vendor = gpu_vendor(folder)) machine.gpus.push_back({read_pci(folder), *vendor});
  }
  for (const fs::path& folder : entries_of(root / "class/net")) {
    if (folder.filename() != "lo") machine.cards.push_back(read_ethernet(folder));
  }
  for (const fs::path& folder : entries_of(root / "class/infiniband")) {
    machine.cards.push_back(read_infiniband(folder));
  }
  for (const fs::path& folder : entries_of(root / "devices/system/node")) {
    const std::string name = folder.filename().string();
    const bool numbered = name.size() > 4 && name.starts_with("node") &&
                          name.find_first_not_of("0123456789", 4) == std::string::npos;
    if (numbered) ++machine.numa_nodes;
  }
  return machine;
}

NvLinks probe_nvlinks(const std::string& library) {
  NvLinks found;
  const std::unique_ptr<Nvml> nvml = Nvml::open(library, found.reason);
  if (!nvml) return found;
  found.driver = nvml->driver_version();
  for (std::uint32_t gpu = 0; gpu < nvml->gpus(); ++gpu) {
    found.active.push_back(nvml->links_up(gpu));
    found.readings.push_back(nvml->read(gpu));
  }
  return found;
}

}  // namespace orrery::live
