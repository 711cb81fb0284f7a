// Reader of NCCL's topology XML (NCCL 2.30, src/graph/xml.cc): <system> <cpu> <pci> <gpu> <nvlink>
// and <nic> <net>. Rates of a <net> are in Mbit/s.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/clusters/cluster_readers.hpp"
#include "traces/clusters/xml_tree.hpp"

namespace orrery {
namespace {

/// GPU of the catalogue for NCCL's `sm`, the compute capability without a point.
struct Generation {
  std::uint32_t sm;
  const char* gpu;
};
constexpr std::array kGenerations{Generation{70, "V100-32GB"}, Generation{80, "A100-80GB"},
                                  Generation{90, "H100"}, Generation{100, "B200"},
                                  Generation{103, "B300"}};

/// Counter of the elements of one file.
class NcclReader {
 public:
  explicit NcclReader(const ConfigText& source) : source_(source) {}

  ClusterFacts read() {
    const XmlElement root = parse_xml_tree(source_);
    if (root.name != "system") {
      source_.throw_error(
          root.line, root.column,
          fmt::format("expected the element 'system' of NCCL, found '{}'", shown(root.name)));
    }
    visit(root);
    if (gpus_ == 0) {
      source_.throw_error(root.line, root.column,
                          "expected at least one element 'gpu', found none");
    }
    return facts();
  }

 private:
  std::optional<double> number(const XmlElement& element, std::string_view name) const {
    const XmlAttribute* const found = element.find(name);
    if (found == nullptr) return std::nullopt;
    double value = 0;
    const char* const end = found->value.data() + found->value.size();
    const auto [read, problem] = std::from_chars(found->value.data(), end, value);
    if (problem == std::errc() && read == end && value >= 0 && value <= 1e9) return value;
    source_.throw_error(found->line, found->column,
                        fmt::format("expected a number from 0 to 1e9 for '{}', found '{}'", name,
                                    shown(found->value)));
  }

  void visit(const XmlElement& element) {
    if (element.name == "cpu") hosts_.insert(std::string(element.value("host_hash")));
    if (element.name == "gpu") visit_gpu(element);
    if (element.name == "net") visit_net(element);
    for (const XmlElement& child : element.children) visit(child);
  }

  void visit_gpu(const XmlElement& gpu) {
    ++gpus_;
    const auto sm = static_cast<std::uint32_t>(number(gpu, "sm").value_or(0));
    if (gpus_ > 1 && sm != sm_) {
      source_.throw_error(gpu.line, gpu.column,
                          fmt::format("expected GPUs of one kind, found sm {} and {}", sm_, sm));
    }
    sm_ = sm;
    double links = 0;
    for (const XmlElement& child : gpu.children) {
      if (child.name == "nvlink") links += number(child, "count").value_or(0);
    }
    if (links > 1000)
      source_.throw_error(gpu.line, gpu.column, "expected at most 1000 NVLinks of a GPU");
    most_links_ = std::max(most_links_, static_cast<std::uint32_t>(links));
  }

  /// NCCL ignores a <net> without `dev`, too.
  void visit_net(const XmlElement& net) {
    if (!number(net, "dev")) {
      ++ignored_nets_;
      return;
    }
    ++nets_;
    const double speed = number(net, "speed").value_or(0);
    if (speed > 0) {
      slowest_ = slowest_ == 0 ? speed : std::min(slowest_, speed);
      fastest_ = std::max(fastest_, speed);
    }
  }

  ClusterFacts facts() const {
    ClusterFacts out;
    const auto hosts = static_cast<std::uint32_t>(std::max<std::size_t>(1, hosts_.size()));
    if (gpus_ % hosts != 0 || nets_ % hosts != 0) {
      source_.throw_error(1, 1,
                          fmt::format("expected equal hosts, found {} GPUs and {} NICs on {} hosts",
                                      gpus_, nets_, hosts));
    }
    out.gpus_per_node = gpus_ / hosts;
    out.nics_per_node = nets_ / hosts;
    out.nic_bandwidth = slowest_ * 1e6 / 8;
    out.nvlinks = most_links_;
    out.knows_nvlinks = true;
    if (hosts > 1) out.nodes = out.nodes_per_domain = hosts;
    name_gpu(out, hosts);
    if (slowest_ != fastest_) {
      out.assumed.push_back(
          fmt::format("all NICs as slow as the slowest ({:g} Gbit/s)", slowest_ / 1000));
    }
    if (ignored_nets_ > 0) {
      out.ignored.push_back(fmt::format("{} elements 'net' without 'dev'", ignored_nets_));
    }
    out.ignored.emplace_back("PCI switches and their rates, affinities, latencies of NICs");
    out.read.push_back(fmt::format("topology of NCCL: {} host{}, {} GPUs of sm {}, {} NICs", hosts,
                                   hosts == 1 ? "" : "s", gpus_, sm_, nets_));
    return out;
  }

  void name_gpu(ClusterFacts& out, std::uint32_t hosts) const {
    for (const Generation& each : kGenerations) {
      if (each.sm != sm_) continue;
      out.gpu = hosts > 1 && sm_ == 100 ? "GB200" : hosts > 1 && sm_ == 103 ? "GB300" : each.gpu;
      out.assumed.push_back(
          fmt::format("GPUs of sm {} as {} (--gpu NAME for another one)", sm_, out.gpu));
      return;
    }
    out.assumed.push_back(fmt::format("GPUs of sm {}, which the catalogue lacks", sm_));
  }

  const ConfigText& source_;
  std::set<std::string> hosts_;
  std::uint32_t gpus_ = 0, nets_ = 0, ignored_nets_ = 0, sm_ = 0, most_links_ = 0;
  double slowest_ = 0, fastest_ = 0;  ///< Mbit/s
};

}  // namespace

ClusterFacts read_nccl_topology(const ConfigText& source) { return NcclReader(source).read(); }

}  // namespace orrery
