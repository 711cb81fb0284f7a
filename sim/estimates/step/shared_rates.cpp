#include "sim/estimates/step/shared_rates.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace orrery::estimates {
namespace {

/// Rates that differ less are equal: sums of the same rates in another order.
constexpr double kSameRate = 1e-12;

}  // namespace

SharedRates::SharedRates(std::vector<double> largest, std::vector<Link> links)
    : kinds_(largest.size()), largest_(std::move(largest)), links_(std::move(links)) {
  state_ = add_state(Counts(kinds_, 0));
}

void SharedRates::find_next(std::uint32_t change) {
  Counts counts = *counts_[state_];
  counts[change / 2] += change % 2 == 0 ? 1 : -1u;
  const auto found = known_.find(counts);
  if (found == known_.end() && known_.size() >= kMostStates) {
    known_.clear();
    counts_.clear();
    rates_.clear();
    next_.clear();
    state_ = add_state(std::move(counts));
    return;
  }
  const std::uint32_t next = found == known_.end() ? add_state(std::move(counts)) : found->second;
  next_[std::size_t{state_} * 2 * kinds_ + change] = next;
  state_ = next;
}

std::uint32_t SharedRates::add_state(Counts counts) {
  const auto state = static_cast<std::uint32_t>(counts_.size());
  const auto made = known_.emplace(std::move(counts), state).first;
  counts_.push_back(&made->first);
  rates_.resize(rates_.size() + kinds_);
  next_.resize(next_.size() + 2 * kinds_, kUnknown);
  fill_links(made->first, &rates_[std::size_t{state} * kinds_]);
  return state;
}

/// Raises the rates of all flows together; a flow stops at its largest rate, or where one of its
/// links is full.
void SharedRates::fill_links(const Counts& counts, double* rates) const {
  std::vector<bool> is_open(kinds_);
  for (std::size_t kind = 0; kind < kinds_; ++kind) is_open[kind] = counts[kind] > 0;
  while (std::find(is_open.begin(), is_open.end(), true) != is_open.end()) {
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      if (is_open[kind]) level = std::min(level, largest_[kind]);
    }
    std::vector<double> full_at;
    for (const Link& link : links_) {
      double left = link.bandwidth, open = 0;
      for (const auto& [kind, times] : link.crossings) {
        if (is_open[kind]) open += counts[kind] * times;
        left -= counts[kind] * times * rates[kind];
      }
      full_at.push_back(open > 0 ? std::max(left, 0.0) / open
                                 : std::numeric_limits<double>::infinity());
      level = std::min(level, full_at.back());
    }
    const double close = level * (1 + kSameRate);
    std::vector<bool> is_closing(kinds_);
    for (std::size_t kind = 0; kind < kinds_; ++kind) is_closing[kind] = largest_[kind] <= close;
    for (std::size_t link = 0; link < links_.size(); ++link) {
      if (full_at[link] > close) continue;
      for (const auto& [kind, times] : links_[link].crossings) is_closing[kind] = true;
    }
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      if (!is_open[kind] || !is_closing[kind]) continue;
      rates[kind] = std::min(level, largest_[kind]);
      is_open[kind] = false;
    }
  }
}

}  // namespace orrery::estimates
