#include "traces/chakra/recording.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/chakra/chakra_files.hpp"
#include "traces/chakra/chakra_node.hpp"
#include "traces/chakra/recorded_op.hpp"
#include "traces/chakra/wire_cursor.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kBlock = static_cast<std::uint32_t>(WireType::block);

/// Returns the text of an attribute (name: field 1, text: field 29) if it has this name, else "".
std::string_view text_named(std::string_view attribute, std::string_view wanted) {
  WireCursor cursor(attribute);
  std::string_view name, text;
  while (!cursor.is_done()) {
    const auto key = static_cast<std::uint32_t>(cursor.varint());
    if ((key & 7) != kBlock) {
      cursor.skip_field(key & 7);
      continue;
    }
    const std::string_view block = cursor.read_block();
    if (key >> 3 == 1) name = block;
    if (key >> 3 == 29) text = block;
  }
  return name == wanted ? text : std::string_view();
}

/// Returns the step's JSON in the first message of a trace; empty if the metadata have none.
std::string_view step_text(const ChakraFile& file) {
  try {
    WireCursor stream(file.bytes);
    if (stream.is_done()) file.fail_at(stream.at(), "the file is empty: expected a recording");
    WireCursor metadata(stream.read_block());
    while (!metadata.is_done()) {
      const auto key = static_cast<std::uint32_t>(metadata.varint());
      if (key != (2 << 3 | kBlock)) {
        metadata.skip_field(key & 7);
        continue;
      }
      const std::string_view text = text_named(metadata.read_block(), kRecordedStepAttribute);
      if (!text.empty()) return text;
    }
  } catch (const WireFault& fault) {
    file.fail_at(fault.at, fmt::format("{}; {}", fault.what, kOtherChakraNumbers));
  }
  return {};
}

/// Returns the fault of an operation of a stage; empty without a fault.
std::string problem_of(const RecordedStep& step, std::uint32_t stage, int number) {
  const RecordedOp& op = ops_of(step, stage)[number];
  if (op.kernels_size() != op.counts_size()) return "has kernels without a count";
  for (const std::uint32_t kernel : op.kernels()) {
    if (kernel >= static_cast<std::uint32_t>(step.kernels_size())) return "has an unknown kernel";
  }
  for (const std::uint32_t before : op.after()) {
    if (before >= static_cast<std::uint32_t>(number)) return "waits for a later operation";
  }
  if (phase_of(op) != RecordedPhase::update && op.micro_batch() >= step.micro_batches()) {
    return "belongs to an unknown micro-batch";
  }
  if (is_message(op)) {
    const std::uint32_t stages = stages_of(step);
    if (phase_of(op) == RecordedPhase::update) return "is a message outside of the passes";
    if ((op.peer() + 1) % stages == stage || (stage + 1) % stages == op.peer()) return {};
    return "is a message of a stage that is no neighbour";
  }
  if (!op.collective().empty() && (op.size() < 2 || op.stride() < 1)) {
    return "is a collective of less than two ranks";
  }
  return {};
}

/// Returns the first message without a partner; "" if all have one, and each pass at most one.
std::string unmatched_message(const RecordedStep& step) {
  // Sender, receiver, phase, micro-batch and the receiver's chunk, with sends minus receives.
  std::map<std::tuple<std::uint32_t, std::uint32_t, RecordedPhase, std::uint32_t, std::uint32_t>,
           int>
      left;
  for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
    for (const RecordedOp& op : ops_of(step, stage)) {
      if (!is_message(op)) continue;
      const bool sends = collective_of(op) == RecordedCollective::send;
      const std::uint32_t from = sends ? stage : op.peer(), to = sends ? op.peer() : stage;
      left[{from, to, phase_of(op), op.micro_batch(), op.chunk()}] += sends ? 1 : -1;
    }
  }
  for (const auto& [message, count] : left) {
    if (count == 0) continue;
    return fmt::format("the message from stage {} to stage {} in micro-batch {} has no partner",
                       std::get<0>(message), std::get<1>(message), std::get<3>(message));
  }
  return {};
}

RecordedStep step_of(const ChakraFile& file) {
  const std::string_view text = step_text(file);
  if (text.empty()) {
    file.fail_at(file.bytes.data(),
                 "expected a recording of orrery rehearse --trace, found an execution trace of "
                 "another program: traces of others run as `trace: {chakra: ...}`");
  }
  RecordedStep step;
  const auto status = google::protobuf::util::JsonStringToMessage(std::string(text), &step);
  if (!status.ok()) {
    file.fail_at(text.data(), fmt::format("expected the step of a recording, found: {}; record "
                                          "the program again with this version",
                                          std::string(status.message())));
  }
  if (step.micro_batches() == 0 || step.ranks() == 0) {
    file.fail_at(text.data(),
                 "expected a step with forward and backward passes, found none: "
                 "record a program that trains");
  }
  for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
    const RecordedOps& ops = ops_of(step, stage);
    const std::string of_stage = stages_of(step) > 1 ? fmt::format(" of stage {}", stage) : "";
    for (int i = 0; i < ops.size(); ++i) {
      const std::string problem = problem_of(step, stage, i);
      if (problem.empty()) continue;
      file.fail_at(text.data(), fmt::format("operation {}{} {}", i, of_stage, problem));
    }
  }
  if (const std::string problem = unmatched_message(step); !problem.empty()) {
    file.fail_at(text.data(), problem);
  }
  return step;
}

/// Appends a number in base 128.
void append_number(std::string& out, std::uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

/// Returns a field that contains these bytes.
std::string block_of(std::uint32_t field, std::string_view bytes) {
  std::string out;
  append_number(out, field << 3 | kBlock);
  append_number(out, bytes.size());
  return out.append(bytes);
}

}  // namespace

void write_recording(const RecordedStep& step, const std::string& prefix) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(step, &json, options);
  ensure(status.ok(), "a step has a JSON form");
  const std::string metadata =
      block_of(1, "0.0.4") + block_of(2, block_of(1, kRecordedStepAttribute) + block_of(29, json));
  std::string bytes;
  append_number(bytes, metadata.size());
  bytes += metadata;
  const std::string path = prefix + ".0.et";
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) throw Error(ErrorKind::environment, "cannot write " + path);
}

RecordedStep read_recording(const std::string& prefix) {
  RecordedStep step;
  bool found = false;
  read_chakra_files(prefix, "",
                    {.rank =
                         [&](std::uint32_t rank, const std::string& file, std::string_view bytes) {
                           if (rank != 0) return;
                           step = step_of(ChakraFile{file, bytes});
                           found = true;
                         },
                     .groups = [](const std::string&, std::string_view) {}});
  if (!found) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}.0.et: expected the recording of rank 0, found none", prefix));
  }
  return step;
}

}  // namespace orrery
