// Logs of toy runs, taken apart and put together again.
#pragma once

#include <string>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include "policies/parameters.pb.h"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::toy {

/// Records of a toy log.
struct Recorded {
  std::uint64_t decisions = 0;
  std::string log_sha256, trace_sha256;
};

inline Scenario scenario_with(const std::string& policy) {
  Scenario with = scenario();
  with.add_policies()->set_name(policy);
  return with;
}

/// Runs the scenario's policies in the toy world and records that to `path`.
inline Recorded record(const Scenario& scenario, const std::string& path, Step steps = 40,
                       std::uint64_t seed = 1) {
  const Cluster toy_cluster = cluster();
  ToyBackend backend(toy_cluster, steps, seed);
  const auto policy = make_stack(scenario, SourceMap{});
  LogHeader header;
  header.set_mode("toy");
  header.set_seed(scenario.run().seed());
  *header.mutable_scenario() = scenario;
  Recorder recorder(backend, *policy, header, {.path = path});
  Rng rng = policy_rng(scenario.run().seed());
  Context context{rng, {}};
  Recorded result{drive(*policy, recorder, context), {}, {}};
  recorder.finish_log();
  result.log_sha256 = recorder.log_sha256();
  result.trace_sha256 = recorder.trace_sha256();
  return result;
}

inline std::vector<LogRecord> read_log(const std::string& path) {
  const std::string bytes = read_file(path);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  std::vector<LogRecord> records;
  bool at_end = false;
  for (LogRecord next; google::protobuf::util::ParseDelimitedFromZeroCopyStream(&next, &stream,
                                                                                &at_end);) {
    records.push_back(std::move(next));
    next.Clear();
  }
  return records;
}

inline void write_log(const std::string& path, const std::vector<LogRecord>& records) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    for (const LogRecord& next : records) {
      google::protobuf::util::SerializeDelimitedToZeroCopyStream(next, &stream);
    }
  }
  write_file(path, bytes);
}

}  // namespace orrery::toy
