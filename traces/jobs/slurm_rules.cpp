#include "traces/jobs/slurm_rules.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/cluster_log.hpp"
#include "traces/jobs/log_time.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kMostQosGpus = 1 << 20;
constexpr std::string_view kNothing = "(null)";  // an absent value

/// Returns the parts of a list between commas; none for Slurm's word for an absent value.
std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  if (list == kNothing) return names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) names.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= 0)) return {};
  return value;
}

// ---- reservations -----------------------------------------------------------------------------

/// Reader of the key=value pairs of one reservation after another.
class ReservationReader {
 public:
  ReservationReader(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  std::vector<SlurmReservation> read() {
    std::string_view rest = text_;
    for (line_ = 1; !rest.empty(); ++line_) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      read_line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    finish_one();
    const bool none = text_.find("No reservations in the system") != std::string_view::npos;
    if (named_ || none) return std::move(all_);
    line_ = begin_ = 1;
    fail("expected the output of 'scontrol show reservation' (ReservationName=...), found none");
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(place_in(text_, path_, begin_, 1), message);
  }
  void read_line(std::string_view line) {
    while (true) {
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string_view::npos) return;
      line.remove_prefix(begin);
      const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
      line.remove_prefix(word.size());
      const std::size_t mark = word.find('=');
      if (mark == std::string_view::npos) continue;
      if (word.substr(0, mark) == "ReservationName") {
        finish_one();
        named_ = true;
        begin_ = line_;
      }
      values_[word.substr(0, mark)] = word.substr(mark + 1);
    }
  }
  std::int64_t instant(std::string_view key) const {
    const auto found = values_.find(key);
    const std::string_view text = found == values_.end() ? "nothing" : found->second;
    if (const auto instant = parse_instant(text)) return *instant;
    fail(fmt::format("{}: expected a time such as 2024-01-10T08:00:00, found {}", key,
                     shown(std::string(text))));
  }
  std::vector<std::string> names(std::string_view key) const {
    const auto found = values_.find(key);
    std::vector<std::string> list =
        found == values_.end() ? std::vector<std::string>{} : names_in(found->second);
    for (const std::string& name : list) {
      if (!name.starts_with('-')) continue;
      fail(fmt::format("{}: expected names that belong to the reservation, found '{}', which is "
                       "excluded: name those that belong to it",
                       key, shown(name)));
    }
    return list;
  }
  void finish_one() {
    if (!values_.contains("ReservationName")) return values_.clear();
    const auto nodes = values_.find("Nodes");
    SlurmReservation each{.name = std::string(values_.at("ReservationName")),
                          .begin_s = instant("StartTime"),
                          .end_s = instant("EndTime"),
                          .nodes = {},
                          .users = names("Users"),
                          .accounts = names("Accounts")};
    if (each.end_s <= each.begin_s) {
      fail(fmt::format("expected an EndTime after the StartTime, found {}", each.end_s));
    }
    const bool has_nodes =
        nodes != values_.end() && !nodes->second.empty() && nodes->second != kNothing;
    if (has_nodes) each.nodes = expand_host_list(nodes->second);
    if (has_nodes && each.nodes.empty()) {
      fail(fmt::format("Nodes: expected a list of hosts, found '{}'",
                       shown(std::string(nodes->second))));
    }
    if (has_nodes) all_.push_back(std::move(each));
    values_.clear();
  }

  const std::string& path_;
  const std::string_view text_;
  int line_ = 0, begin_ = 1;
  bool named_ = false;
  std::map<std::string_view, std::string_view> values_;
  std::vector<SlurmReservation> all_;
};

// ---- QOS --------------------------------------------------------------------------------------

/// Reader of the rows of sacctmgr.
class QosReader {
 public:
  QosReader(const std::string& path, std::string_view text)
      : reader_(path, text, Separator::bar) {
    reader_.next_row(fields_);
    columns_.assign(fields_.begin(), fields_.end());
    if (!at("Name")) {
      reader_.fail_row("expected the output of 'sacctmgr show qos -P', whose header has the "
                       "columns Name, Priority, GrpTRES, MaxTRESPU and Preempt, found no Name");
    }
  }

  std::vector<SlurmQos> read() {
    std::vector<SlurmQos> all;
    while (reader_.next_row(fields_)) {
      if (reader_.is_blank()) continue;
      if (fields_.size() != columns_.size()) {
        reader_.fail_row(fmt::format("expected {} fields, as the header has, found {}",
                                     columns_.size(), fields_.size()));
      }
      all.push_back({.name = std::string(text("Name")),
                     .priority = text("Priority").empty() ? 0 : number("Priority"),
                     .gpus = gpus("GrpTRES"),
                     .gpus_per_user = gpus("MaxTRESPU"),
                     .preempts = names_in(text("Preempt"))});
    }
    return all;
  }

 private:
  std::optional<std::size_t> at(std::string_view column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    if (found == columns_.end()) return {};
    return static_cast<std::size_t>(found - columns_.begin());
  }
  std::string_view text(std::string_view column) const {
    const auto index = at(column);
    return index ? fields_[*index] : std::string_view{};
  }
  double number(std::string_view column) const {
    if (const auto value = number_in(text(column))) return *value;
    reader_.fail_at_field(*at(column), fmt::format("{}: expected a number, found '{}'", column,
                                                   shown(std::string(text(column)))));
  }
  /// Returns N of gres/gpu=N in a list such as cpu=64,gres/gpu=8; nothing without it, or for -1,
  /// which is no limit.
  std::optional<std::uint32_t> gpus(std::string_view column) const {
    constexpr std::string_view kGpus = "gres/gpu=";
    for (const std::string& part : names_in(text(column))) {
      if (!part.starts_with(kGpus) || part == "gres/gpu=-1") continue;
      const auto value = number_in(std::string_view(part).substr(kGpus.size()));
      if (value && *value <= kMostQosGpus) return static_cast<std::uint32_t>(*value);
      reader_.fail_at_field(*at(column), fmt::format("{}: expected a number of GPUs, found '{}'",
                                                     column, shown(part)));
    }
    return {};
  }

  CsvReader reader_;
  std::vector<std::string> columns_;
  std::vector<std::string_view> fields_;
};

}  // namespace

std::vector<SlurmReservation> parse_slurm_reservations(const std::string& path,
                                                       std::string_view text) {
  return ReservationReader(path, text).read();
}

std::vector<SlurmQos> parse_slurm_qos(const std::string& path, std::string_view text) {
  return QosReader(path, text).read();
}

}  // namespace orrery
