#include "traces/clusters/cluster_writers.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "topologies/builder.hpp"
#include "traces/clusters/cluster_facts.hpp"
#include "traces/clusters/cluster_file.hpp"

namespace orrery {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string text_of(const Message& message, const FieldDescriptor& field) {
  const auto* const reflection = message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format("{}", reflection->GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", reflection->GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format("{}", reflection->GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{:.12g}", reflection->GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_STRING: return reflection->GetString(message, &field);
    default: return "";
  }
}

/// Adds a line for each single value that differs, with its path. Lists are not compared.
void add_changes(const Message& before, const Message& after, const std::string& path,
                 std::vector<std::string>& changed) {
  const auto* const fields = before.GetDescriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const FieldDescriptor& field = *fields->field(i);
    if (field.is_repeated()) continue;
    const std::string name = path + field.name();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      add_changes(before.GetReflection()->GetMessage(before, &field),
                  after.GetReflection()->GetMessage(after, &field), name + ".", changed);
      continue;
    }
    const std::string was = text_of(before, field), is = text_of(after, field);
    if (was == is) continue;
    changed.push_back(fmt::format("{}: {}, read again as {}", name, was.empty() ? "nothing" : was,
                                  is.empty() ? "nothing" : is));
  }
}

/// Returns the cluster that `orrery import cluster-file` reads from a text, with --gpu where the
/// text does not name the GPU.
Topology read_again(const std::string& text, const std::string& gpu,
                    std::vector<std::string>& changed) {
  ClusterFacts facts = parse_cluster_file(text, "the written cluster");
  ClusterChoices choices;
  const std::vector<std::string> known = gpu_names();
  if (facts.gpu != gpu && std::find(known.begin(), known.end(), gpu) != known.end()) {
    choices.gpu = gpu;
    changed.push_back(fmt::format("node.gpu: {}, read again with --gpu {}", gpu, gpu));
  }
  Topology again = cluster_of(facts, choices);
  resolve(again, {});
  return again;
}

std::string text_in(WrittenFormat format, const Topology& resolved) {
  switch (format) {
    case WrittenFormat::nccl: return write_nccl_topology(resolved);
    case WrittenFormat::slurm_conf: return write_slurm_conf(resolved);
    case WrittenFormat::slurm_yaml: return write_slurm_yaml(resolved);
    case WrittenFormat::simgrid: return write_simgrid_platform(resolved);
  }
  return {};
}

}  // namespace

WrittenCluster write_cluster_file(const Topology& resolved, WrittenFormat format) {
  WrittenCluster written{.text = text_in(format, resolved), .changed = {}};
  Topology before = resolved;
  const Topology after = read_again(written.text, resolved.node().gpu(), written.changed);
  before.clear_preset();
  add_changes(before, after, "", written.changed);
  return written;
}

}  // namespace orrery
