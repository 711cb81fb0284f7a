#include "sim/training/fit_cache.hpp"

#include <algorithm>

namespace orrery::sim {
namespace {

/// Number of cached fits besides the first one; each holds its simulated steps.
constexpr std::size_t kMostFits = 8;

/// Returns the numbers 0, 1, ... of `ranks` ranks.
std::vector<std::uint32_t> in_order(std::size_t ranks) {
  std::vector<std::uint32_t> all(ranks);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

FitCache::FitCache(Ground ground, std::vector<GpuId> home)
    : ground_(std::move(ground)),
      home_(std::move(home)),
      begun_(fit(this->home(), in_order(home_.size()), nullptr)),
      now_(begun_) {}

Standing FitCache::home() const {
  const ::orrery::Layout& said = ground_.scenario.job().layout();
  return {.gpus = home_,
          .layout = {.tensor = said.tensor(),
                     .context = said.context(),
                     .pipeline = said.pipeline(),
                     .data = said.data(),
                     .pipeline_last = said.order() == "pipeline-last"}};
}

void FitCache::begin_at(const Standing& where) {
  home_ = where.gpus.to_vector();
  others_.clear();
  now_ = begun_ = fit(where, in_order(home_.size()), nullptr);
}

bool FitCache::number_gpus(const GpuRuns& gpus) {
  if (gpus == begun_->where().gpus) return false;
  std::vector<GpuId> known = home_;
  std::sort(known.begin(), known.end());
  const std::size_t before = home_.size();
  for (const GpuId gpu : gpus) {
    if (!std::binary_search(known.begin(), known.end(), gpu)) home_.push_back(gpu);
  }
  return home_.size() > before;
}

std::shared_ptr<FittedJob> FitCache::fit(const Standing& where, std::vector<std::uint32_t> ranks,
                                         std::shared_ptr<FittedJob> begun) const {
  const FittedJob::Ground ground{.scenario = ground_.scenario,
                                 .cluster = ground_.cluster,
                                 .home = home_,
                                 .options = ground_.options,
                                 .engine = ground_.engine,
                                 .seed = ground_.seed};
  return std::make_shared<FittedJob>(ground, where, std::move(ranks), std::move(begun));
}

std::shared_ptr<FittedJob> FitCache::fitted(const Standing& where,
                                            std::vector<std::uint32_t> ranks) {
  if (begun_->where() == where) return begun_;
  const auto known = std::find_if(others_.begin(), others_.end(),
                                  [&where](const auto& fit) { return fit->where() == where; });
  std::shared_ptr<FittedJob> made;
  if (known == others_.end()) {
    made = fit(where, std::move(ranks), begun_);
    if (reseeded_) made->telemetry().reseed_noise(reseeded_->first, reseeded_->second);
  } else {
    made = *known;
    made->renumber_ranks(std::move(ranks));
    others_.erase(known);
  }
  others_.insert(others_.begin(), made);
  if (others_.size() > kMostFits) {
    simulated_before_ += others_.back()->stepper().simulated();
    others_.pop_back();
  }
  return made;
}

void FitCache::move_to(const Standing& where, std::vector<std::uint32_t> ranks) {
  most_classes_ = std::max(most_classes_, now_->stepper().most_classes());
  now_ = fitted(where, std::move(ranks));
  now_->telemetry().forget_steps();
}

void FitCache::reseed_noise(Nanos from, std::uint64_t seed) {
  reseeded_ = {from, seed};
  begun_->telemetry().reseed_noise(from, seed);
  for (const auto& fit : others_) fit->telemetry().reseed_noise(from, seed);
}

std::uint64_t FitCache::simulated() const {
  std::uint64_t simulated = simulated_before_ + begun_->stepper().simulated();
  for (const auto& fit : others_) simulated += fit->stepper().simulated();
  return simulated;
}

std::uint64_t FitCache::most_classes() const {
  std::uint64_t classes = std::max(most_classes_, begun_->stepper().most_classes());
  for (const auto& fit : others_) classes = std::max(classes, fit->stepper().most_classes());
  return classes;
}

}  // namespace orrery::sim
