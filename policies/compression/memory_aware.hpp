// Policy `memory-aware`: chooses the code of each job's gradient from the measured link, the free
// memory and the variance of the gradients between ranks. Registered in run/registry.cpp; one
// thread.
//
// The samples of collectives give the size of a gradient and the measured duration of its exchange.
// After the warm-up, exchange_time.hpp predicts the duration of an exchange without a code and with
// each permitted code, from the mildest to the most lossy code. A code with more loss is chosen
// only if its predicted duration is below that of the best milder code by the threshold; the code
// in use is kept as long as its gain is at least half the threshold. Error
// feedback needs free memory, and codes below 8 bits need free memory and a low variance. Vectors
// stay uncompressed, because they have few bytes and are sensitive to rounding. A code that does
// not shorten the measured exchange is withdrawn and not tried again. For example, on a slow link
// int8 takes about half the time of bf16 and is chosen if the threshold is below 1/2.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that chooses compression rules from measurements.
class MemoryAware : public Policy {
 public:
  /// Constructs a policy with default parameters.
  MemoryAware();

  /// Returns Configure and the setting CodecRules; no tick.
  Needs needs() const override;
  /// Reads the parameters, the memory size and the memory bandwidth of the cluster's GPU, and
  /// forgets all measurements. `parameters`: MemoryAwareParameters, or null for the defaults;
  /// absent fields have their defaults. Throws an internal Error for another message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Follows the running training jobs with at least two replicas and no lost rank; forgets
  /// everything about all others: measurements, cooldown and withdrawn codes. Reads the samples of
  /// a job at its StepsDone events and at ticks. Decides at most one Configure of CodecRules for a
  /// job, from its next step on: after the warm-up, after the cooldown since the newest decision,
  /// not for the step after the last, and with at least three measurements of the gradient and of
  /// the link. Rests unless a decision was made or further samples may lead to one.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the measurements and decisions of all followed jobs; replaces the content of the
  /// archive. The parameters are not part of the state.
  void save(Archive& archive) const override;
  /// Replaces the followed jobs. Throws an internal Error, and changes nothing, for bytes that are
  /// incomplete or too many.
  void load(const Archive& archive) override;

 private:
  /// Moving average of a sampled value; 0 samples: unknown.
  struct Average {
    double value = 0;
    std::uint64_t samples = 0;  ///< number of samples
    double deviation = 0;       ///< moving average of the samples' absolute deviations
    /// Adds a sample.
    void add(double sample);
    /// Returns true after the first sample.
    bool is_known() const { return samples > 0; }
    /// Returns the largest change of the average that the next samples may cause while the policy
    /// rests.
    double doubt() const;
  };
  /// Measurements and decisions of one job.
  struct Watch {
    Average gradient;   ///< bytes of the gradient in fp32
    Average bandwidth;  ///< bytes per second of the slowest link
    Average latency;    ///< seconds of a small message on the slowest link
    Average variance;   ///< variance of the gradients, median over ranks
    Average memory;     ///< bytes in use on the fullest GPU
    Average plain;      ///< measured over predicted duration of an exchange without a code
    Average coded;      ///< measured seconds of an exchange with the current code
    /// code at the previous reading of samples, with which the newest step was measured
    Codec in_force = Codec::none;
    Step heard_to = 0;         ///< first step whose collective has not been read
    Step changes_at = 0;       ///< first step of the newest decision
    bool decided = false;      ///< true after the first decision
    std::uint32_t barred = 0;  ///< bit mask of the codecs that were tried without success

    /// Passes all fields to `bytes`, a ByteWriter or ByteReader.
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
  /// Possible code with its prediction.
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
  /// Decides about one job. Returns true if the policy may rest: it decided nothing and would
  /// decide nothing after similar samples.
  bool decide_for_job(const JobInfo& job, Watch& watch, DecisionList& decisions) const;
  std::string reason(const JobInfo& job, const Watch& watch, const Choice& choice) const;

  MemoryAwareParameters parameters_;
  double memory_ = 0;            ///< bytes of one GPU
  double memory_bandwidth_ = 0;  ///< bytes per second
  std::map<JobId, Watch> watches_;
};

}  // namespace orrery
