// DGC in C++: a stronger codec as long as the exchange takes too large a part of the computation.
// Decides as DeepCompression of tests/python/outside_policies.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <orrery/policy.hpp>

/// Policy that chooses the codec of a job's gradients from measured times.
class DeepCompression : public orrery::Policy {
 public:
  orrery::Needs needs() const override {
    return {.actions = orrery::Kinds<orrery::Action>::of<orrery::Configure>(),
            .settings = orrery::Kinds<orrery::Setting>::of<orrery::CodecRules>()};
  }
  void start(orrery::Context&, const orrery::Cluster&, const google::protobuf::Message*) override {}

  void observe(orrery::Context&, const orrery::Observation& seen,
               orrery::DecisionList& decisions) override {
    for (const orrery::Event& event : seen.events) {
      const auto* done = std::get_if<orrery::StepsDone>(&event);
      if (done == nullptr) continue;
      heard_ += done->count;
      if (heard_ < kWarmUp || rung_ == kRungs.size()) continue;
      const orrery::JobInfo& job = seen.jobs[done->job];
      if (job.phase != orrery::JobPhase::running || !is_exchange_long(seen, job)) continue;
      const orrery::CodecRule rule = kRungs[rung_++];
      heard_ = 0;
      const orrery::CodecRule vectors{.bucket_class = orrery::kVectors,
                                      .codec = orrery::Codec::none,
                                      .parameter = 0,
                                      .error_feedback = false};
      decisions
          .add(orrery::Configure{done->job, orrery::CodecRules{rule, vectors}},
               "the exchange takes more than 50% of the computation")
          .at_step = done->last + 2;
    }
  }

  void save(orrery::Archive& archive) const override { orrery::ByteWriter{archive}(rung_, heard_); }
  void load(const orrery::Archive& archive) override { orrery::ByteReader{archive}(rung_, heard_); }

 private:
  static constexpr double kMost = 0.5;
  static constexpr std::uint64_t kWarmUp = 4;
  inline static const std::vector<orrery::CodecRule> kRungs{
      {.bucket_class = orrery::kMatrices, .codec = orrery::Codec::int8},
      {.bucket_class = orrery::kMatrices, .codec = orrery::Codec::power_sgd, .parameter = 4}};

  static bool is_exchange_long(const orrery::Observation& seen, const orrery::JobInfo& job) {
    double exposed = 0;
    for (const auto& sum : seen.samples.collectives(job.spec.id)) exposed += sum.exposed;
    std::vector<double> times;
    for (const auto& rank : seen.samples.ranks(job.spec.id)) {
      if (rank.micro_batch_time.is_known()) times.push_back(rank.micro_batch_time.value);
    }
    if (times.empty()) return false;
    std::sort(times.begin(), times.end());
    const double median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
    const auto batches = *std::max_element(job.shares().begin(), job.shares().end());
    return exposed > kMost * batches * median;
  }

  std::uint64_t rung_ = 0, heard_ = 0;
};
