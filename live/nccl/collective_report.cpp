#include "live/nccl/collective_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace orrery::live {
namespace {

constexpr std::string_view kOpen = "open", kDone = "done";

/// Kinds of collectives with NCCL's names of their functions and their words in a report.
struct KindWords {
  CollectiveKind kind;
  std::string_view function, word;
};
constexpr std::array<KindWords, 4> kKinds{
    KindWords{CollectiveKind::all_reduce, "AllReduce", "all_reduce"},
    KindWords{CollectiveKind::reduce_scatter, "ReduceScatter", "reduce_scatter"},
    KindWords{CollectiveKind::all_gather, "AllGather", "all_gather"},
    KindWords{CollectiveKind::broadcast, "Broadcast", "broadcast"}};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return fields;
}

template <class Number>
bool read_number(std::string_view field, Number& number) {
  const char* const end = field.data() + field.size();
  const auto [stop, problem] = std::from_chars(field.data(), end, number);
  return problem == std::errc() && stop == end && !field.empty();
}

std::optional<NcclReport> parse_done(const std::vector<std::string_view>& fields) {
  CollectiveReport report;
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const KindWords& each) { return each.word == fields[5]; });
  const auto algorithm = find_named<CollectiveAlgorithm>(fields[7]);
  const bool is_whole =
      read_number(fields[1], report.communicator) && read_number(fields[2], report.sequence) &&
      read_number(fields[3], report.rank) && read_number(fields[4], report.ranks) &&
      kind != kKinds.end() && read_number(fields[6], report.bytes) && algorithm &&
      read_number(fields[8], report.duration_ns);
  if (!is_whole) return std::nullopt;
  report.kind = kind->kind;
  report.algorithm = *algorithm;
  return report;
}

}  // namespace

std::string print_report(const NcclReport& report) {
  if (const auto* opened = std::get_if<OpenReport>(&report)) {
    return fmt::format("{} {}", kOpen, opened->rank);
  }
  const auto& done = std::get<CollectiveReport>(report);
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const KindWords& each) { return each.kind == done.kind; });
  return fmt::format("{} {} {} {} {} {} {} {} {}", kDone, done.communicator, done.sequence,
                     done.rank, done.ranks, kind == kKinds.end() ? "none" : kind->word, done.bytes,
                     name_of(done.algorithm), done.duration_ns);
}

std::optional<NcclReport> parse_report(std::string_view line) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() == 9 && fields[0] == kDone) return parse_done(fields);
  OpenReport opened;
  if (fields.size() != 2 || fields[0] != kOpen || !read_number(fields[1], opened.rank)) {
    return std::nullopt;
  }
  return opened;
}

std::optional<CollectiveKind> kind_of_function(std::string_view name) {
  for (const KindWords& each : kKinds) {
    if (each.function == name) return each.kind;
  }
  return std::nullopt;
}

CollectiveAlgorithm algorithm_named(std::string_view name) {
  std::string upper;
  for (const char each : name) {
    if (each != '_') upper += static_cast<char>(each >= 'a' && each <= 'z' ? each - 32 : each);
  }
  if (upper == "RING") return CollectiveAlgorithm::ring;
  if (upper == "TREE") return CollectiveAlgorithm::tree;
  if (upper == "NVLS" || upper == "NVLSTREE") return CollectiveAlgorithm::nvls;
  return CollectiveAlgorithm::automatic;
}

std::uint64_t bytes_of_type(std::string_view name) {
  const std::size_t first = std::min(name.find_first_of("0123456789"), name.size());
  std::uint64_t bits = 0;
  std::from_chars(name.data() + first, name.data() + name.size(), bits);
  return bits / 8;
}

}  // namespace orrery::live
