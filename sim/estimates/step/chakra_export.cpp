#include "sim/estimates/step/chakra_export.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "sim/estimates/step/step_record.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "traces/report/report.hpp"

namespace orrery::estimates {
namespace {

namespace chakra = ChakraProtoMsg;

void set_integer(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}

/// Other writers store ranks and tags as 32-bit integers.
void set_rank(chakra::Node& node, const char* name, std::uint32_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int32_val(static_cast<std::int32_t>(value));
}

void append(std::string& stream, const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  std::size_t size = bytes.size();
  for (; size >= 128; size >>= 7) stream.push_back(static_cast<char>((size & 127) | 128));
  stream.push_back(static_cast<char>(size));
  stream += bytes;
}

chakra::CollectiveCommType type_of(OpCollective collective) {
  switch (collective) {
    case OpCollective::all_gather: return chakra::ALL_GATHER;
    case OpCollective::reduce_scatter: return chakra::REDUCE_SCATTER;
    case OpCollective::none:
    case OpCollective::all_reduce: break;
  }
  return chakra::ALL_REDUCE;
}

/// Both ends of a message compute the same tag.
std::uint32_t tag_of(const Op& op) {
  return (op.micro_batch << 8 | (op.chunk & 127) << 1) + (op.phase == Phase::backward ? 1 : 0);
}

void set_duration(chakra::Node& node, double seconds) {
  node.set_type(chakra::COMP_NODE);
  node.set_duration_micros(static_cast<std::uint64_t>(std::llround(seconds * 1e6)));
  set_integer(node, "duration_nanos", std::llround(seconds * 1e9));
}

void describe(chakra::Node& node, const Block& block, double seconds) {
  double flop = 0, bytes = 0;
  for (const Kernel& kernel : block.kernels) {
    flop += kernel.flop.value * kernel.repeat;
    bytes += kernel.bytes.value * kernel.repeat;
  }
  set_duration(node, seconds);
  set_integer(node, "num_ops", std::llround(flop));
  set_integer(node, "tensor_size", std::llround(bytes));
}

}  // namespace

ChakraExport::ChakraExport(StepGraph& graph, const Cluster& cluster,
                           std::vector<std::uint32_t> micro_batches)
    : graph_(graph), micro_batches_(std::move(micro_batches)) {
  ensure(micro_batches_.size() == graph.data(), "every replica has a number of micro-batches");
  std::vector<GpuId> placement;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) placement.push_back({rank});
  const BlockGroups groups = block_groups(graph, cluster, placement);
  const CostProfile profile = job_profile(graph.job(), cluster);
  PlanBase base(cluster, graph, profile, placement);
  for (const BlockPrice& cost : block_prices(cluster, graph, groups, planned_exchanges(base))) {
    seconds_.push_back(cost.compute.value + cost.tensor.value);
  }
}

const ChakraExport::Nodes& ChakraExport::nodes(const Program& program) {
  Nodes& nodes = programs_[&program];
  if (!nodes.empty()) return nodes;
  std::map<Communicator, std::uint64_t> last;  // collectives of one communicator keep their order
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    chakra::Node& node = nodes.emplace_back();
    node.set_id(i + 1);
    node.set_name(fmt::format("{} {}.{}", phase_name(op.phase), op.micro_batch, i));
    for (const std::uint32_t before : op.after) node.add_data_deps(before + 1);
    chakra::AttributeProto& host = *node.add_attr();
    host.set_name("is_cpu_op");
    host.set_bool_val(op.kind == OpKind::read);
    if (op.kind == OpKind::read) {
      set_duration(node, graph_.read_interval().value);
      continue;
    }
    if (op.kind == OpKind::compute) {
      describe(node, graph_.blocks()[op.block], seconds_[op.block]);
      continue;
    }
    double bytes = op.bytes.value;
    if (op.kind == OpKind::collective) {
      node.set_type(chakra::COMM_COLL_NODE);
      set_integer(node, "comm_type", type_of(op.collective));
      // Chakra counts the input of one rank as the size of an all-gather.
      if (op.collective == OpCollective::all_gather) {
        bytes /= graph_.communicator_size(op.communicator);
      }
      const auto [before, first] = last.emplace(op.communicator, i + 1);
      if (!first) node.add_ctrl_deps(std::exchange(before->second, i + 1));
    } else {
      node.set_type(op.kind == OpKind::send ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
      set_rank(node, "comm_tag", tag_of(op));
    }
    set_integer(node, "comm_size", std::llround(bytes));
  }
  return nodes;
}

std::string ChakraExport::group_name(Communicator which, RankId rank) {
  std::vector<std::uint32_t> members;
  for (const RankId member : graph_.communicator(which, rank)) members.push_back(member.value);
  const auto next = static_cast<std::uint32_t>(groups_.size() + 1);
  return std::to_string(groups_.emplace(std::move(members), next).first->second);
}

std::string ChakraExport::rank_file(RankId rank) {
  const StepGraph::Position at = graph_.position(rank);
  const Program& program = graph_.program(at.stage, micro_batches_[at.replica],
                                          std::ranges::max(micro_batches_));
  Nodes nodes = this->nodes(program);
  chakra::GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  chakra::AttributeProto& generator = *metadata.add_attr();
  generator.set_name("generator");
  generator.set_string_val("orrery " + version());
  std::string stream;
  append(stream, metadata);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind == OpKind::collective) {
      chakra::AttributeProto& group = *nodes[i].add_attr();
      group.set_name("pg_name");
      group.set_string_val(group_name(op.communicator, rank));
    } else if (op.kind == OpKind::send || op.kind == OpKind::receive) {
      const auto stage = static_cast<std::uint32_t>(op.peer_stage);
      const std::uint32_t peer = graph_.rank(at.replica, stage, at.member).value;
      const bool sends = op.kind == OpKind::send;
      set_rank(nodes[i], "comm_src", sends ? rank.value : peer);
      set_rank(nodes[i], "comm_dst", sends ? peer : rank.value);
    }
    append(stream, nodes[i]);
  }
  return stream;
}

std::string ChakraExport::groups_file() const {
  std::map<std::uint32_t, const std::vector<std::uint32_t>*> by_number;
  for (const auto& [members, number] : groups_) by_number[number] = &members;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [number, members] : by_number) json[std::to_string(number)] = *members;
  return json.dump();
}

void export_chakra(ChakraExport& from, const std::string& prefix) {
  const auto write = [](const std::string& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary);
    file << bytes;
    file.close();
    if (!file)
      throw Error(ErrorKind::environment,
                  fmt::format("cannot write {}: check the folder and the free space", path));
  };
  for (std::uint32_t rank = 0; rank < from.ranks(); ++rank) {
    write(fmt::format("{}.{}.et", prefix, rank), from.rank_file({rank}));
  }
  write(prefix + ".json", from.groups_file());
}

}  // namespace orrery::estimates
