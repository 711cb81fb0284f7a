// Chakra traces written by hand, for tests: nodes with their attributes, in the file format.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include "traces/chakra.pb.h"

namespace orrery::testing {

namespace chakra = ChakraProtoMsg;

inline void append_message(std::string& stream, const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  for (std::size_t size = bytes.size(); true; size >>= 7) {
    stream.push_back(static_cast<char>(size < 128 ? size : (size & 127) | 128));
    if (size < 128) break;
  }
  stream += bytes;
}

inline void set_int(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}

inline chakra::Node make_node(std::uint64_t id, chakra::NodeType type,
                              std::initializer_list<std::uint64_t> after = {}) {
  chakra::Node node;
  node.set_id(id);
  node.set_name(fmt::format("n{}", id));
  node.set_type(type);
  for (const std::uint64_t before : after) node.add_data_deps(before);
  return node;
}

inline chakra::Node compute(std::uint64_t id, std::uint64_t micros,
                            std::initializer_list<std::uint64_t> after = {}) {
  chakra::Node node = make_node(id, chakra::COMP_NODE, after);
  node.set_duration_micros(micros);
  return node;
}

inline chakra::Node collective(std::uint64_t id, chakra::CollectiveCommType type,
                               std::int64_t bytes, const std::string& group = {},
                               std::initializer_list<std::uint64_t> after = {}) {
  chakra::Node node = make_node(id, chakra::COMM_COLL_NODE, after);
  set_int(node, "comm_type", type);
  set_int(node, "comm_size", bytes);
  if (group.empty()) return node;
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name("pg_name");
  attribute.set_string_val(group);
  return node;
}

inline chakra::Node message(std::uint64_t id, bool send, std::int64_t peer, std::int64_t bytes,
                            std::int64_t tag = 0,
                            std::initializer_list<std::uint64_t> after = {}) {
  chakra::Node node =
      make_node(id, send ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE, after);
  set_int(node, send ? "comm_dst" : "comm_src", peer);
  set_int(node, "comm_size", bytes);
  set_int(node, "comm_tag", tag);
  return node;
}

/// A rank's file.
inline std::string file_of(std::initializer_list<chakra::Node> nodes,
                           const std::string& version = "0.0.4") {
  chakra::GlobalMetadata metadata;
  metadata.set_version(version);
  std::string stream;
  append_message(stream, metadata);
  for (const chakra::Node& node : nodes) append_message(stream, node);
  return stream;
}

}  // namespace orrery::testing
