// Reader of hwloc's XML (`lstopo --of xml`, hwloc 2): GPUs of NVIDIA and network adapters among the
// PCI devices of a machine. hwloc states neither NVLink connections nor the rates of adapters.
#include <array>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/clusters/cluster_readers.hpp"
#include "traces/clusters/xml_tree.hpp"

namespace orrery {
namespace {

/// GPU of the catalogue by its PCI device.
struct PciGpu {
  std::string_view device;
  const char* gpu;
};
constexpr std::array kPciGpus{PciGpu{"10de:1db1", "V100-16GB"}, PciGpu{"10de:1db5", "V100-32GB"},
                              PciGpu{"10de:20b0", "A100-40GB"}, PciGpu{"10de:20b2", "A100-80GB"},
                              PciGpu{"10de:2324", "H800"},      PciGpu{"10de:2330", "H100"},
                              PciGpu{"10de:2335", "H200"},      PciGpu{"10de:2901", "B200"}};

/// Collector of the devices of one machine.
class HwlocReader {
 public:
  explicit HwlocReader(const ConfigText& source) : source_(source) {}

  ClusterFacts read() {
    const XmlElement root = parse_xml_tree(source_);
    if (root.name != "topology") {
      source_.throw_error(
          root.line, root.column,
          fmt::format("expected the element 'topology' of hwloc, found '{}'", shown(root.name)));
    }
    visit(root);
    if (gpus_ == 0) {
      source_.throw_error(root.line, root.column,
                          "expected a PCI device of class 0302 by NVIDIA, found none: run lstopo "
                          "with --of xml and without a filter of devices");
    }
    return facts();
  }

 private:
  void visit(const XmlElement& element) {
    if (element.value("type") == "PCIDev") visit_device(element);
    if (element.value("type") == "OSDev" && element.value("osdev_type") == "3") {
      adapters_.insert(std::string(element.value("name")));
    }
    for (const XmlElement& child : element.children) visit(child);
  }

  /// `pci_type` is, for example, "0302 [10de:2330] [10de:16c1] a1".
  void visit_device(const XmlElement& device) {
    const std::string_view type = device.value("pci_type");
    if (!type.starts_with("0302 [10de:") || type.size() < 15) return;
    ++gpus_;
    const std::string id(type.substr(6, 9));
    if (gpus_ > 1 && id != device_) {
      source_.throw_error(device.line, device.column,
                          fmt::format("expected GPUs of one kind, found the devices {} and {}",
                                      shown(device_), shown(id)));
    }
    device_ = id;
  }

  ClusterFacts facts() const {
    ClusterFacts out;
    out.gpus_per_node = gpus_;
    out.nics_per_node = static_cast<std::uint32_t>(adapters_.size());
    for (const PciGpu& each : kPciGpus) {
      if (each.device == device_) out.gpu = each.gpu;
    }
    out.ignored.emplace_back("processors, caches, memory of the host, rates of PCI");
    out.read.push_back(fmt::format("hwloc: {} GPUs of PCI device {}, {} network adapters", gpus_,
                                   shown(device_), adapters_.size()));
    return out;
  }

  const ConfigText& source_;
  std::set<std::string> adapters_;
  std::string device_;
  std::uint32_t gpus_ = 0;
};

}  // namespace

ClusterFacts read_hwloc_topology(const ConfigText& source) { return HwlocReader(source).read(); }

}  // namespace orrery
