#include "sim/replay/load_series.hpp"

#include <algorithm>

namespace orrery::sim {

void LoadSeries::add(const Load& load, Nanos time) {
  while (current() >= kMostIntervals) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (i % 2 == 0) {
        sums_[i / 2] = sums_[i];
        continue;
      }
      Sum& into = sums_[i / 2];
      into.busy += sums_[i].busy;
      into.jobs += sums_[i].jobs;
      into.gpus += sums_[i].gpus;
      into.fragmentation += sums_[i].fragmentation;
      into.looks += sums_[i].looks;
    }
    sums_.resize((sums_.size() + 1) / 2);
    width_ *= 2;
  }
  if (current() >= sums_.size()) sums_.resize(current() + 1);
  Sum& sum = sums_[current()];
  const auto weight = static_cast<double>(time);
  sum.busy += weight * load.busy_gpus;
  sum.jobs += weight * static_cast<double>(load.waiting_jobs);
  sum.gpus += weight * load.waiting_gpus;
  most_waiting_ = std::max(most_waiting_, load.waiting_jobs);
}

/// Stores the fragmentation at the end of an interval.
void LoadSeries::sample_fragmentation(double fragmentation) {
  sums_.back().fragmentation += fragmentation;
  ++sums_.back().looks;
}

LoadSeries::Interval LoadSeries::mean_of(const Sum& sum, Nanos time) {
  if (time == 0) return {};
  const auto all = static_cast<double>(time);
  return {sum.busy / all, sum.jobs / all, sum.gpus / all,
          sum.looks == 0 ? 0 : sum.fragmentation / sum.looks};
}

std::vector<LoadSeries::Interval> LoadSeries::intervals() const {
  std::vector<Interval> out;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Nanos from = begin_ + static_cast<Nanos>(i) * width_;
    out.push_back(mean_of(sums_[i], std::min(width_, now_ - from)));
  }
  return out;
}

LoadSeries::Interval LoadSeries::mean() const {
  Sum all;
  for (const Sum& sum : sums_) {
    all.busy += sum.busy;
    all.jobs += sum.jobs;
    all.gpus += sum.gpus;
    all.fragmentation += sum.fragmentation;
    all.looks += sum.looks;
  }
  return mean_of(all, now_ - begin_);
}

}  // namespace orrery::sim
