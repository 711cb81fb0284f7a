#include "policies/run/complete_log.hpp"

#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/recorder.hpp"
#include "policies/record/samples_book.hpp"
#include "policies/run/registry.hpp"

namespace orrery {
namespace {

void append_record(const std::string& bytes, google::protobuf::io::CodedOutputStream& out) {
  out.WriteVarint32(static_cast<std::uint32_t>(bytes.size()));
  out.WriteString(bytes);
}

/// Reads the next call; returns false at the end of the file, and at a record that is cut short.
bool read_call(LogReader& reader, LogRecord& record) {
  try {
    if (!reader.next(record)) return false;
  } catch (const Error&) {
    return false;
  }
  if (!record.has_call()) reader.refuse_last("is no call: expected a log without a footer");
  return true;
}

}  // namespace

std::uint64_t complete_log(const std::string& partial, const std::string& log) {
  LogReader reader(partial);
  const LogHeader header = read_header(reader);
  if (!header.has_replay()) reader.refuse_last("is not the header of a run of jobs");
  const Cluster cluster = cluster_of(header.replay());
  ObservationReader observations(cluster);
  SamplesBook samples;
  DecisionTrace trace;
  Sha256 hash;
  std::ofstream file(log, std::ios::binary);
  std::uint64_t calls = 0;
  {
    google::protobuf::io::OstreamOutputStream stream(&file);
    google::protobuf::io::CodedOutputStream out(&stream);
    hash.update(reader.bytes());
    append_record(reader.bytes(), out);
    for (LogRecord record; read_call(reader, record); ++calls) {
      const Observation seen = observations.read(record.call().observation(), samples);
      trace.add_observation(seen);
      for (const DecisionRecord& each : record.call().decisions()) {
        const Decision decision = decode(each);
        trace.add_decision(decision, seen);
        observations.world().announce_decision(decision);
      }
      hash.update(reader.bytes());
      append_record(reader.bytes(), out);
    }
    LogRecord footer;
    footer.mutable_footer()->set_calls(calls);
    footer.mutable_footer()->set_decision_log_sha256(hash.hex());
    footer.mutable_footer()->set_decision_trace_sha256(trace.finish_trace());
    append_record(footer.SerializeAsString(), out);
  }
  file.close();
  if (!file) throw Error(ErrorKind::environment, fmt::format("cannot write the log {}", log));
  return calls;
}

}  // namespace orrery
