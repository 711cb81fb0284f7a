#include "traces/jobs/elastic_sizes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kMostGpus = 1 << 20;
constexpr double kLeastEfficiency = 0.5, kMostSpeed = 1e15;
constexpr const char* kScaling =
    "an efficiency from 0.5 to 1, or GPUs and speeds such as '1:60 2:110 8:380'";

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

/// Returns the words of a text between blanks.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(words.back().size());
  }
}

std::uint32_t size_of(std::string_view text, std::string_view column, std::uint32_t absent) {
  if (text.empty()) return absent;
  const std::optional<std::uint32_t> gpus = number_in<std::uint32_t>(text);
  if (gpus && *gpus >= 1 && *gpus <= kMostGpus) return *gpus;
  throw SizeProblem{column, fmt::format("{} must be a whole number from 1 to {}, not '{}'", column,
                                        kMostGpus, text)};
}

[[noreturn]] void refuse_scaling(std::string_view text) {
  throw SizeProblem{"scaling", fmt::format("scaling must be {}, not '{}'", kScaling, text)};
}

/// Returns the table of a scaling, whose GPUs must ascend.
std::vector<std::pair<std::uint32_t, double>> table_of(std::string_view text) {
  std::vector<std::pair<std::uint32_t, double>> table;
  for (const std::string_view word : words_of(text)) {
    const std::size_t colon = std::min(word.find(':'), word.size());
    const auto gpus = number_in<std::uint32_t>(word.substr(0, colon));
    const auto speed = number_in<double>(word.substr(std::min(colon + 1, word.size())));
    const bool good = gpus && speed && *gpus >= 1 && *speed > 0 && *speed <= kMostSpeed;
    if (!good || (!table.empty() && table.back().first >= *gpus)) refuse_scaling(text);
    table.emplace_back(*gpus, *speed);
  }
  return table;
}

}  // namespace

ElasticSizes::ElasticSizes(const std::string& text) {
  const std::vector<std::string_view> words = words_of(text);
  ensure(words.size() >= 2, "sizes of a job begin with the least and the most GPUs");
  least_ = number_in<std::uint32_t>(words[0]).value_or(0);
  most_ = number_in<std::uint32_t>(words[1]).value_or(0);
  if (words.size() == 2) return;
  scaling_ = text.substr(static_cast<std::size_t>(words[2].data() - text.data()));
  if (scaling_.find(':') != std::string::npos) {
    table_ = table_of(scaling_);
  } else {
    exponent_ = 1 + std::log2(number_in<double>(scaling_).value_or(1));
  }
}

double ElasticSizes::speed(std::uint32_t gpus) const {
  if (table_.empty()) return std::pow(static_cast<double>(gpus), exponent_);
  const auto above =
      std::find_if(table_.begin(), table_.end(), [gpus](const auto& each) {
        return each.first >= gpus;
      });
  ensure(above != table_.end(), "a table of speeds has all sizes of its job");
  if (above->first == gpus) return above->second;
  const auto& [low, slow] = *(above - 1);
  const double part = static_cast<double>(gpus - low) / static_cast<double>(above->first - low);
  return slow + (above->second - slow) * part;
}

double ElasticSizes::relative_speed(std::uint32_t gpus, std::uint32_t asked) const {
  return gpus == asked ? 1 : speed(gpus) / speed(asked);
}

std::string elastic_sizes(const SizeColumns& columns, std::uint32_t gpus) {
  if (columns.min_gpus.empty() && columns.max_gpus.empty() && columns.scaling.empty()) return {};
  const std::uint32_t least = size_of(columns.min_gpus, "min_gpus", gpus);
  const std::uint32_t most = size_of(columns.max_gpus, "max_gpus", gpus);
  if (least > gpus) {
    throw SizeProblem{"min_gpus",
                      fmt::format("min_gpus is {}, more than the {} GPUs of the job", least, gpus)};
  }
  if (most < gpus) {
    throw SizeProblem{"max_gpus",
                      fmt::format("max_gpus is {}, less than the {} GPUs of the job", most, gpus)};
  }
  const std::vector<std::string_view> words = words_of(columns.scaling);
  std::string text = fmt::format("{} {}", least, most);
  for (const std::string_view word : words) text.append(" ").append(word);
  if (columns.scaling.find(':') == std::string_view::npos) {
    const auto efficiency = words.size() == 1 ? number_in<double>(words[0]) : std::optional(1.0);
    const bool good = efficiency && *efficiency >= kLeastEfficiency && *efficiency <= 1;
    if (!good || words.size() > 1) refuse_scaling(columns.scaling);
    return text;
  }
  const auto table = table_of(columns.scaling);
  if (table.front().first <= least && table.back().first >= most) return text;
  throw SizeProblem{"scaling", fmt::format("scaling has the speeds on {} to {} GPUs, the job may "
                                           "have {} to {}",
                                           table.front().first, table.back().first, least, most)};
}

}  // namespace orrery
