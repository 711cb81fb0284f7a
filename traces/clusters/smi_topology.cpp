// Reader of the output of `nvidia-smi topo -m`: a table of the connections between GPUs and NICs.
// Cells are X, NV and a number of links, PIX, PXB, PHB, NODE, SYS; terminals may have left escape
// sequences in the table.
#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/clusters/cluster_readers.hpp"

namespace orrery {
namespace {

struct Cell {
  std::string text;
  int column = 1;
};

/// Returns the words of a line, without escape sequences.
std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> out;
  bool is_open = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      is_open = false;
      continue;
    }
    if (!is_open) out.push_back({.text = "", .column = static_cast<int>(i) + 1});
    is_open = true;
    out.back().text += c;
  }
  return out;
}

bool is_gpu(const std::string& name) {
  return name.size() > 3 && name.starts_with("GPU") && name[3] >= '0' && name[3] <= '9';
}

bool is_nic(const std::string& name) {
  return name.starts_with("NIC") || name.starts_with("mlx") || name.starts_with("bnxt") ||
         name.starts_with("rdma") || name.starts_with("efa");
}

/// GPUs of the catalogue by their NVLink connections, where no other line tells.
const char* gpu_with(std::uint32_t links) {
  switch (links) {
    case 6: return "V100-32GB";
    case 12: return "A100-80GB";
    case 18: return "H100";
    default: return "";
  }
}

/// Reader of the table, row by row.
class SmiReader {
 public:
  explicit SmiReader(const ConfigText& source) : source_(source) {}

  ClusterFacts read() {
    std::size_t begin = 0;
    for (int line = 1; begin < source_.text.size(); ++line) {
      const std::size_t end = std::min(source_.text.find('\n', begin), source_.text.size());
      read_line(cells_of(source_.text.substr(begin, end - begin)), line);
      begin = end + 1;
    }
    if (columns_.empty()) source_.throw_error(1, 1, "expected a header with GPU0, found none");
    if (gpus_ == 0) source_.throw_error(1, 1, "expected a row that begins with GPU0, found none");
    return facts();
  }

 private:
  void read_line(const std::vector<Cell>& cells, int line) {
    if (cells.empty()) return;
    if (columns_.empty()) {
      if (!is_gpu(cells[0].text)) return;
      for (const Cell& cell : cells) {
        if (is_gpu(cell.text) || is_nic(cell.text)) columns_.push_back(cell.text);
      }
      return;
    }
    const std::string& name = cells[0].text;
    if (is_gpu(name)) {
      ++gpus_;
      read_row(cells, line);
    } else if (is_nic(name) && cells.size() > columns_.size()) {
      ++nics_;
    }
  }

  void read_row(const std::vector<Cell>& cells, int line) {
    if (cells.size() <= columns_.size()) {
      source_.throw_error(line, cells[0].column,
                          fmt::format("expected {} connections of {}, found {}", columns_.size(),
                                      shown(cells[0].text), cells.size() - 1));
    }
    for (std::size_t i = 1; i <= columns_.size(); ++i) {
      const std::string& cell = cells[i].text;
      if (!cell.starts_with("NV")) continue;
      std::uint32_t links = 0;
      const char* const end = cell.data() + cell.size();
      const auto [read, problem] = std::from_chars(cell.data() + 2, end, links);
      if (problem != std::errc() || read != end || links > 1000) {
        source_.throw_error(
            line, cells[i].column,
            fmt::format("expected NV and a number of links, found '{}'", shown(cell)));
      }
      most_links_ = std::max(most_links_, links);
    }
  }

  ClusterFacts facts() const {
    ClusterFacts out;
    out.gpus_per_node = gpus_;
    out.nics_per_node = nics_;
    out.nvlinks = most_links_;
    out.knows_nvlinks = gpus_ > 1;
    out.gpu = gpu_with(most_links_);
    if (!out.gpu.empty()) {
      out.assumed.push_back(fmt::format("GPUs with {} NVLinks as {} (--gpu NAME for another one)",
                                        most_links_, out.gpu));
    }
    out.ignored.emplace_back("affinities, distances over PCI");
    out.read.push_back(fmt::format("nvidia-smi topo -m: {} GPUs, {} NICs", gpus_, nics_));
    return out;
  }

  const ConfigText& source_;
  std::vector<std::string> columns_;
  std::uint32_t gpus_ = 0, nics_ = 0, most_links_ = 0;
};

}  // namespace

ClusterFacts read_smi_topology(const ConfigText& source) { return SmiReader(source).read(); }

}  // namespace orrery
