// Reader and writer of NCCL's topology XML (NCCL 2.30, src/graph/xml.cc): <system> <cpu> <pci>
// <gpu> <nvlink> and <nic> <net>. Rates of a <net> are in Mbit/s.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/clusters/cluster_readers.hpp"
#include "traces/clusters/cluster_writers.hpp"
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
    if (hosts > 1) out.nodes_per_domain = hosts;
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

/// GPU of a cluster as NCCL states it.
struct StatedGpu {
  std::uint32_t sm = 0, nvlinks = 0;
};

/// Returns the GPU's generation and links. A GPU with fewer links than its data sheet has a name
/// such as H100-12-nvlinks (cluster_of()).
StatedGpu stated_gpu(const std::string& name) {
  constexpr std::array kBegins{Generation{70, "V100"},  Generation{80, "A100"},
                               Generation{80, "A800"},  Generation{90, "H100"},
                               Generation{90, "H800"},  Generation{90, "H200"},
                               Generation{100, "B200"}, Generation{100, "GB200"},
                               Generation{103, "B300"}, Generation{103, "GB300"}};
  StatedGpu found{.sm = 0, .nvlinks = usual_nvlinks(name)};
  for (const Generation& each : kBegins) {
    if (name.starts_with(each.gpu)) found.sm = each.sm;
  }
  if (found.sm == 0 || found.nvlinks == 0) {
    throw Error(ErrorKind::bad_input,
                fmt::format("NCCL: expected a GPU with NVLink (V100 to GB300), found '{}'", name));
  }
  const std::string_view ending = "-nvlinks";
  if (name.ends_with(ending)) {
    const std::string_view rest = std::string_view(name).substr(0, name.size() - ending.size());
    const std::string_view digits = rest.substr(rest.rfind('-') + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), found.nvlinks);
  }
  return found;
}

}  // namespace

std::string write_nccl_topology(const Topology& of) {
  const NodeSpec& node = of.node();
  const StatedGpu gpu = stated_gpu(node.gpu());
  std::string text = "<system version=\"1\">\n";
  for (std::uint32_t host = 0; host < std::max(1u, node.nvlink_domain()); ++host) {
    text += fmt::format(
        "  <cpu host_hash=\"{:#x}\" numaid=\"0\" affinity=\"ffffffff\" arch=\"x86_64\" "
        "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n",
        host + 1);
    for (std::uint32_t i = 0; i < node.gpus_per_node(); ++i) {
      text += fmt::format(
          "    <pci busid=\"{0:04x}:{1:02x}:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s "
          "PCIe\" "
          "link_width=\"16\">\n"
          "      <gpu dev=\"{1}\" sm=\"{2}\" rank=\"{3}\" gdr=\"1\">\n"
          "        <nvlink target=\"fffffffff:ffff:ff\" count=\"{4}\" tclass=\"0x068000\"/>\n"
          "      </gpu>\n    </pci>\n",
          host, i, gpu.sm, host * node.gpus_per_node() + i, gpu.nvlinks);
    }
    for (std::uint32_t i = 0; i < node.nics_per_node(); ++i) {
      text += fmt::format(
          "    <pci busid=\"{0:04x}:{1:02x}:00.1\" class=\"0x020700\" link_speed=\"32.0 GT/s "
          "PCIe\" "
          "link_width=\"16\">\n      <nic>\n"
          "        <net name=\"mlx5_{1}\" dev=\"{1}\" speed=\"{2:.0f}\" port=\"1\" "
          "latency=\"0.000000\" guid=\"{3:#x}\" maxconn=\"131072\" gdr=\"1\"/>\n"
          "      </nic>\n    </pci>\n",
          host, i, node.nic_bandwidth() * 8 / 1e6, (std::uint64_t{host} << 32) + i + 1);
    }
    text += "  </cpu>\n";
  }
  return text + "</system>\n";
}

ClusterFacts read_nccl_topology(const ConfigText& source) { return NcclReader(source).read(); }

}  // namespace orrery
