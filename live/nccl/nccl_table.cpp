#include "live/nccl/nccl_table.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

std::optional<NcclCollective> collective_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return NcclCollective::all_reduce;
    case CollectiveKind::reduce_scatter: return NcclCollective::reduce_scatter;
    case CollectiveKind::all_gather: return NcclCollective::all_gather;
    case CollectiveKind::broadcast: return NcclCollective::broadcast;
    default: return std::nullopt;
  }
}

NcclAlgorithm algorithm_of(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return NcclAlgorithm::ring;
    case CollectiveAlgorithm::tree: return NcclAlgorithm::tree;
    case CollectiveAlgorithm::nvls: return NcclAlgorithm::nvls;
    default: return NcclAlgorithm::automatic;
  }
}

}  // namespace

TunerTable tuner_table_of(const CollectiveTable& table) {
  TunerSection section;
  for (const CollectiveRule& rule : table) {
    const auto collective = collective_of(rule.kind);
    if (!collective || rule.from_nodes > 1) continue;
    section.rules.push_back({.collective = *collective,
                             .from_bytes = static_cast<std::uint64_t>(std::ceil(rule.from_bytes)),
                             .from_ranks = rule.from_ranks,
                             .algorithm = algorithm_of(rule.algorithm),
                             .protocol = std::nullopt});
  }
  return {section};
}

void write_tuner_file(const std::string& path, const TunerTable& table) {
  const std::string text = print_tuner_table(table);
  std::ifstream before(path, std::ios::binary);
  const bool there = before.is_open();
  if (there && std::string(std::istreambuf_iterator<char>(before), {}) == text) return;
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code problem;
  if (file) std::filesystem::rename(fresh, path, problem);
  if (!file || problem) {
    throw Error(ErrorKind::environment, fmt::format("cannot write '{}'", path));
  }
}

}  // namespace orrery::live
