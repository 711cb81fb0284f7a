// Falcon in C++: a GPU that is slow for several steps gives its rank to a free GPU, or does less.
// Decides as Guard of tests/python/outside_policies.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <orrery/policy.hpp>

/// Policy that moves a job away from one slow GPU.
class Guard : public orrery::Policy {
 public:
  orrery::Needs needs() const override {
    return {.actions = orrery::Kinds<orrery::Action>::of<orrery::Assign, orrery::Configure>(),
            .settings = orrery::Kinds<orrery::Setting>::of<orrery::Shares>()};
  }
  void start(orrery::Context&, const orrery::Cluster&, const google::protobuf::Message*) override {}

  void observe(orrery::Context&, const orrery::Observation& seen,
               orrery::DecisionList& decisions) override {
    for (const orrery::Event& event : seen.events) {
      const auto* done = std::get_if<orrery::StepsDone>(&event);
      if (done == nullptr || decided_ != 0) continue;
      const orrery::JobInfo& job = seen.jobs[done->job];
      if (job.phase != orrery::JobPhase::running) continue;
      if (!is_confirmed(seen.samples.ranks(job.spec.id))) continue;
      decided_ = 1;
      eject_rank(seen, job, decisions);
    }
  }

  void save(orrery::Archive& archive) const override {
    orrery::ByteWriter{archive}(suspect_, times_, decided_);
  }
  void load(const orrery::Archive& archive) override {
    orrery::ByteReader{archive}(suspect_, times_, decided_);
  }

 private:
  static constexpr double kSlow = 1.5;
  static constexpr std::uint64_t kSteps = 3;

  /// Returns true if the same rank was the only slow one in enough steps, one by one.
  bool is_confirmed(std::span<const orrery::RankSample> ranks) {
    std::vector<double> times;
    for (const auto& rank : ranks) {
      if (!rank.micro_batch_time.is_known()) return false;
      times.push_back(rank.micro_batch_time.value);
    }
    if (times.empty()) return false;
    std::sort(times.begin(), times.end());
    const double median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
    std::int64_t suspect = -1;
    int late = 0;
    for (const auto& rank : ranks) {
      if (rank.micro_batch_time.value <= kSlow * median) continue;
      suspect = rank.rank.value;
      ++late;
    }
    if (late != 1) suspect = -1;
    times_ = suspect == suspect_ && suspect >= 0 ? times_ + 1 : 1;
    suspect_ = suspect;
    return suspect >= 0 && times_ >= kSteps;
  }

  void eject_rank(const orrery::Observation& seen, const orrery::JobInfo& job,
                  orrery::DecisionList& decisions) const {
    const auto slow = static_cast<std::uint32_t>(suspect_);
    std::vector<orrery::GpuId> gpus = job.gpus.to_vector();
    const std::string found = "GPU " + std::to_string(gpus[slow].value) + " is slow, ";
    for (std::uint32_t gpu = 0; gpu < seen.state.owner.size(); ++gpu) {
      if (seen.state.owner[gpu] != orrery::ClusterState::kNobody) continue;
      if (!seen.state.is_healthy({gpu}, seen.cluster.node_of({gpu}))) continue;
      gpus[slow] = {gpu};
      std::sort(gpus.begin(), gpus.end());
      decisions.add(orrery::Assign{job.spec.id, gpus, job.layout, orrery::StateFrom::peer},
                    found + "GPU " + std::to_string(gpu) + " is free");
      return;
    }
    std::vector<std::uint32_t> shares = job.shares();
    const std::uint32_t moved = shares[slow] / 2;
    shares[slow] -= moved;
    std::uint32_t to = 0;
    for (std::uint32_t i = 0; i < moved; ++i, ++to) {
      if (to % shares.size() == slow) ++to;
      ++shares[to % shares.size()];
    }
    decisions.add(orrery::Configure{job.spec.id, orrery::Shares{shares}}, found + "no GPU is free");
  }

  std::int64_t suspect_ = -1;
  std::uint64_t times_ = 0, decided_ = 0;
};
