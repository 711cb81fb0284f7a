// The policy `memory-aware`: chooses the code of each job's gradient from the measured link, the
// free memory and the differences between the ranks' gradients. Registered in registry.cpp; one
// thread. Needs samples of collectives, from which it learns the size of a gradient and the real
// duration of its exchange. Method: after the warm-up, exchange_time.hpp predicts the duration of
// an exchange with the current code and with each permitted code, from the mildest to the most
// lossy. A code with more loss is chosen only if it is predicted to be faster than the previous one
// by the threshold. Codes with error feedback need memory for it, and codes below 8 bits need
// similar gradients. Vectors (few bytes, sensitive) stay uncompressed. A code that does not shorten
// the measured exchange is withdrawn and not tried again. For example, on a slow link int8 halves
// an fp16 exchange and is chosen if the threshold is below 1/2.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that chooses gradient codes from measurements.
class MemoryAware : public Policy {
 public:
  MemoryAware();

  Needs needs() const override;
  /// `parameters`: MemoryAwareParameters or null; absent fields take their defaults.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  /// Moving average of a sampled value; 0 samples: unknown.
  struct Average {
    double value = 0;
    std::uint64_t samples = 0;
    double deviation = 0;  ///< mean of the absolute deviations of the samples
    void add(double sample);
    bool known() const { return samples > 0; }
    /// Returns the possible error after the next sample.
    double doubt() const;  ///< possible error after the next sample
  };
  /// Knowledge about one job.
  struct Watch {
    Average gradient;   ///< bytes of fp32 in one exchange
    Average bandwidth;  ///< slowest link, bytes per second
    Average latency;    ///< slowest link, seconds
    Average variance;   ///< variance of the gradients, median over ranks
    Average memory;     ///< bytes in use on the fullest GPU
    Average plain;  ///< exchange without codes: measured over predicted time
    Average coded;  ///< exchange with the current code, measured seconds
    /// code at the previous call, with which its samples were measured
    Codec in_force = Codec::none;
    Step heard_to = 0;             ///< collectives of earlier steps have been read
    Step changes_at = 0;           ///< first step of the newest decision
    bool decided = false;
    std::uint32_t barred = 0;  ///< bit mask of the codecs that were tried without success

    template <class Self, class Bytes>
    static void fields(Self& self, Bytes& bytes) {
      for (auto* each : {&self.gradient, &self.bandwidth, &self.latency, &self.variance,
                         &self.memory, &self.plain, &self.coded}) {
        bytes(each->value), bytes(each->samples), bytes(each->deviation);
      }
      bytes(self.in_force), bytes(self.heard_to), bytes(self.changes_at);
      bytes(self.decided), bytes(self.barred);
    }
  };
  struct Choice {
    CodecRule code;
    double seconds = 0;  ///< predicted seconds of an exchange
  };
  void record_samples(const Observation& seen, const JobInfo& job, Watch& watch) const;
  void see_collectives(const Observation& seen, const JobInfo& job, Watch& watch) const;
  void see_links(const Observation& seen, const JobInfo& job, Watch& watch) const;
  std::vector<CodecRule> allowed_rules(const JobInfo& job, const Watch& watch) const;
  double predicted_seconds(const JobInfo& job, const Watch& watch, const CodecRule& code) const;
  Choice choose_rules(const JobInfo& job, const Watch& watch) const;
  bool is_in_vain(const JobInfo& job, const Watch& watch) const;
  bool is_settled(const JobInfo& job, const Watch& watch) const;
  /// Decides for one job. Returns true if no decision is pending and none would be made.
  bool decide_for_job(const JobInfo& job, Watch& watch, DecisionList& decisions) const;
  std::string reason(const JobInfo& job, const Watch& watch, const Choice& choice) const;

  MemoryAwareParameters parameters_;
  double memory_ = 0;            ///< bytes of one GPU
  double memory_bandwidth_ = 0;  ///< bytes per second
  std::map<JobId, Watch> watches_;
};

}  // namespace orrery
