// Jobs that the step-graph tests share.
#pragma once

#include <cstdint>

#include "traces/scenario.pb.h"

namespace orrery {

inline constexpr double kMiB = 1024.0 * 1024.0;

/// A small transformer; every dimension divides by 4.
inline Job small_job(std::uint32_t tensor, std::uint32_t pipeline, std::uint32_t data,
                     std::uint32_t global_batch) {
  Job job;
  Model& model = *job.mutable_model();
  model.set_layers(8);
  model.set_hidden(1024);
  model.set_heads(16);
  model.set_kv_heads(4);
  model.set_feed_forward(4096);
  model.set_gated(true);
  model.set_vocabulary(32000);
  job.set_sequence_length(512);
  job.set_global_batch(global_batch);
  job.set_micro_batch(1);
  job.mutable_layout()->set_tensor(tensor);
  job.mutable_layout()->set_pipeline(pipeline);
  job.mutable_layout()->set_data(data);
  job.mutable_layout()->set_sequence_parallel(true);
  job.set_precision("bf16");
  job.set_bucket(8 * kMiB);
  job.set_overlap(true);
  return job;
}

inline Job paced_job(std::uint32_t data, std::uint32_t global_batch) {
  Job job;
  job.mutable_model()->set_builtin("language-model");
  job.set_sequence_length(128);
  job.set_global_batch(global_batch);
  job.set_micro_batch(1);
  job.mutable_layout()->set_tensor(1);
  job.mutable_layout()->set_pipeline(1);
  job.mutable_layout()->set_data(data);
  job.set_bucket(256 * kMiB);
  job.set_overlap(true);
  job.mutable_pace()->set_micro_batch(40'000'000);
  return job;
}

}  // namespace orrery
