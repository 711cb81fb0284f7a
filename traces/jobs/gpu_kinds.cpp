#include "traces/jobs/gpu_kinds.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr double kMostKindSpeed = 1e15, kMostFactor = 1000;

/// Returns the parts of a text between marks, of which none is left out.
std::vector<std::string_view> parts_between(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(mark), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

[[noreturn]] void refuse_kinds(std::string_view text) {
  throw KindProblem{"gpu_kind", fmt::format("gpu_kind must be different kinds without blanks, "
                                            "such as 'A100|V100', not '{}'",
                                            text)};
}

[[noreturn]] void refuse_speeds(std::string_view text) {
  throw KindProblem{"speeds", fmt::format("speeds must be different kinds and speeds above 0, such "
                                          "as 'A100:1 V100:0.45', not '{}'",
                                          text)};
}

using Entries = std::vector<std::pair<std::string_view, double>>;

const double* find_kind(const Entries& entries, std::string_view kind) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [kind](const auto& each) { return each.first == kind; });
  return found == entries.end() ? nullptr : &found->second;
}

Entries speed_entries(std::string_view speeds) {
  Entries entries;
  for (const std::string_view word : parts_between(speeds, ' ')) {
    if (word.empty()) continue;
    const std::size_t colon = word.rfind(':');
    if (colon == std::string_view::npos || colon == 0) refuse_speeds(speeds);
    const std::string_view digits = word.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    double speed = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, speed);
    const bool good = error == std::errc{} && stop == end && speed > 0 && speed <= kMostKindSpeed;
    if (!good || find_kind(entries, word.substr(0, colon)) != nullptr) refuse_speeds(speeds);
    entries.emplace_back(word.substr(0, colon), speed);
  }
  return entries;
}

std::vector<std::string_view> checked_kinds(std::string_view gpu_kind) {
  std::vector<std::string_view> kinds = parts_between(gpu_kind, '|');
  std::vector<std::string_view> sorted = kinds;
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (twice || sorted.front().empty() || gpu_kind.find(' ') != std::string_view::npos) {
    refuse_kinds(gpu_kind);
  }
  return kinds;
}

}  // namespace

GpuKinds::GpuKinds(const std::string& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  gpu_kind_ = text.substr(0, end);
  speeds_ = text.substr(std::min(end + 1, text.size()));
  const Entries entries = speed_entries(speeds_);
  double own = 0;
  for (const std::string_view kind : parts_between(gpu_kind_, '|')) {
    const double* const speed = find_kind(entries, kind);
    if (own == 0) own = speed == nullptr ? 1 : *speed;
    by_speed_.push_back({std::string(kind), speed == nullptr ? 1 : *speed / own});
  }
  std::stable_sort(by_speed_.begin(), by_speed_.end(),
                   [](const KindSpeed& a, const KindSpeed& b) { return a.speed > b.speed; });
}

const double* GpuKinds::speed_on(std::string_view kind) const {
  const auto found = std::find_if(by_speed_.begin(), by_speed_.end(),
                                  [kind](const KindSpeed& each) { return each.kind == kind; });
  return found == by_speed_.end() ? nullptr : &found->speed;
}

std::string gpu_kinds(const KindColumns& columns) {
  const Entries entries = speed_entries(columns.speeds);
  std::string text(columns.gpu_kind);
  if (text.empty()) {
    for (const auto& [kind, speed] : entries) {
      text.append(text.empty() ? "" : "|").append(kind);
    }
  }
  if (text.empty()) return {};
  double own = 0;
  for (const std::string_view kind : checked_kinds(text)) {
    if (entries.empty()) continue;
    const double* const speed = find_kind(entries, kind);
    if (speed == nullptr) {
      throw KindProblem{"speeds", fmt::format("speeds lacks the kind '{}' of gpu_kind '{}'", kind,
                                              text)};
    }
    if (own == 0) own = *speed;
    if (*speed > own * kMostFactor || own > *speed * kMostFactor) {
      throw KindProblem{"speeds", fmt::format("speeds must be at most {} times those of the first "
                                              "kind, and no less than one {}th, not '{}'",
                                              kMostFactor, kMostFactor, columns.speeds)};
    }
  }
  for (const std::string_view word : parts_between(columns.speeds, ' ')) {
    if (!word.empty()) text.append(" ").append(word);
  }
  return text;
}

}  // namespace orrery
