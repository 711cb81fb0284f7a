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

bool number_gpus(FitState& fits, const GpuRuns& gpus) {
  if (gpus == fits.first->where().gpus) return false;
  std::vector<GpuId> known = fits.numbered;
  std::sort(known.begin(), known.end());
  const std::size_t before = fits.numbered.size();
  for (const GpuId gpu : gpus) {
    if (!std::binary_search(known.begin(), known.end(), gpu)) fits.numbered.push_back(gpu);
  }
  return fits.numbered.size() > before;
}

FitState FitCache::begin_at(const Standing& where) {
  std::vector<GpuId> numbered = where.gpus.to_vector();
  others_.clear();
  begun_ = std::make_shared<FittedJob>(ground_, where, in_order(numbered.size()), nullptr);
  return {.numbered = std::move(numbered), .first = begun_, .now = begun_};
}

std::shared_ptr<FittedJob> FitCache::fitted(const Standing& where,
                                            std::vector<std::uint32_t> ranks) {
  if (begun_->where() == where) return begun_;
  const auto known = std::find_if(others_.begin(), others_.end(),
                                  [&where](const auto& fit) { return fit->where() == where; });
  std::shared_ptr<FittedJob> made;
  if (known == others_.end()) {
    made = std::make_shared<FittedJob>(ground_, where, std::move(ranks), begun_);
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

void FitCache::move_to(FitState& fits, const Standing& where, std::vector<std::uint32_t> ranks) {
  most_classes_ = std::max(most_classes_, fits.now->stepper().most_classes());
  fits.now = fitted(where, std::move(ranks));
  fits.now->telemetry().forget_steps();
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
