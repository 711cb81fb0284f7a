#include "live/run/observations/rank_samples.hpp"

#include <span>
#include <vector>

namespace orrery::live {

/// Samples with the job's rank numbers.
class RankSamples::Numbered : public Samples {
 public:
  Numbered(const Telemetry& telemetry, const Placement& placement)
      : telemetry_(telemetry), placement_(placement) {}
  RankSummary summary(JobId id, std::uint32_t latest) override {
    return summarize(*this, id, latest, slowest_);
  }
  std::span<const RankSample> ranks(JobId id) override {
    ranks_.clear();
    for (RankSample sample : telemetry_.ranks()) {
      const auto rank = id == kLiveJob ? placement_.rank_in(sample.rank.value) : std::nullopt;
      if (!rank) continue;
      sample.rank = *rank;
      ranks_.push_back(sample);
    }
    return ranks_;
  }
  std::span<const DeviceSample> devices(JobId) override { return telemetry_.devices(); }
  std::span<const LinkSample> links(JobId) override { return telemetry_.links(); }
  std::span<const CollectiveSample> collectives(JobId) override { return telemetry_.collectives(); }

 private:
  const Telemetry& telemetry_;
  const Placement& placement_;
  std::vector<RankSample> ranks_, slowest_;
};

void RankSamples::begin() {
  clear();
  taken_ = false;
}

void RankSamples::fetch_samples(const SamplesRead& wish) {
  if (!std::exchange(taken_, true)) telemetry_.refresh_samples(clock_.now());
  Numbered numbered(telemetry_, placement_);
  SamplesRead& read = *read_.add_read();
  read = read_samples(numbered, wish);
  add(read);
}

}  // namespace orrery::live
