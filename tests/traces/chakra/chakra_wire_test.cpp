#include "traces/chakra/chakra_wire.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/traces/chakra_sample.hpp"
#include "traces/chakra/wire_cursor.hpp"

namespace orrery {
namespace {

using namespace testing;

ParsedRank parse(const std::string& bytes) {
  ParsedRank rank;
  parse_chakra_rank("t.0.et", bytes, rank);
  return rank;
}

std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_TRUE(error.source_place().has_value());
    return error.what();
  }
  return "accepted";
}

TEST(ChakraWire, NodesBecomeOpsWithIdsAboveTheLeast) {
  chakra::Node work = make_node(7, chakra::COMP_NODE, {9});
  set_int(work, "num_ops", 1000);
  set_int(work, "tensor_size", 64);
  const ParsedRank rank = parse(file_of({work, collective(9, chakra::ALL_GATHER, 4096, "12")}));
  EXPECT_EQ(rank.first_id, 7u);
  ASSERT_EQ(rank.ops.size(), 2u);
  EXPECT_EQ(rank.ops[0].kind, TraceOpKind::compute);
  EXPECT_EQ(rank.ops[0].flop, 1000u);
  EXPECT_EQ(rank.ops[0].bytes, 64u);
  EXPECT_EQ(rank.after_ids, std::vector<std::uint64_t>{2});
  EXPECT_EQ(rank.ops[1].id, 2u);
  EXPECT_EQ(rank.ops[1].collective, ChakraCollective::all_gather);
  EXPECT_EQ(rank.group_names, std::vector<std::string>{"12"});
}

TEST(ChakraWire, EveryNumericKindIsRead) {
  using Setter = void (*)(chakra::AttributeProto&);
  const Setter setters[] = {
      [](chakra::AttributeProto& a) { a.set_double_val(96); },
      [](chakra::AttributeProto& a) { a.set_float_val(96); },
      [](chakra::AttributeProto& a) { a.set_int32_val(96); },
      [](chakra::AttributeProto& a) { a.set_int64_val(96); },
      [](chakra::AttributeProto& a) { a.set_uint32_val(96); },
      [](chakra::AttributeProto& a) { a.set_uint64_val(96); },
      [](chakra::AttributeProto& a) { a.set_sint32_val(96); },
      [](chakra::AttributeProto& a) { a.set_sint64_val(96); },
      [](chakra::AttributeProto& a) { a.set_fixed32_val(96); },
      [](chakra::AttributeProto& a) { a.set_fixed64_val(96); },
      [](chakra::AttributeProto& a) { a.set_sfixed32_val(96); },
      [](chakra::AttributeProto& a) { a.set_sfixed64_val(96); }};
  for (const Setter set : setters) {
    chakra::Node node = make_node(0, chakra::COMP_NODE);
    chakra::AttributeProto& attribute = *node.add_attr();
    attribute.set_name("tensor_size");
    set(attribute);
    EXPECT_EQ(parse(file_of({node})).ops[0].bytes, 96u) << attribute.DebugString();
  }
}

TEST(ChakraWire, AHostOperationTakesItsRecordedTimeWhateverItsType) {
  chakra::Node node = make_node(0, chakra::COMM_COLL_NODE);  // without comm_type, as PyTorch writes
  node.set_duration_micros(85);
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name("is_cpu_op");
  attribute.set_bool_val(true);
  const TraceOp op = parse(file_of({node})).ops[0];
  EXPECT_EQ(op.kind, TraceOpKind::compute);
  EXPECT_TRUE(op.cpu);
  EXPECT_EQ(op.duration_ns, 85'000u);
}

TEST(ChakraWire, DependenciesAreKeptOnceDataBeforeControl) {
  chakra::Node node = compute(5, 1, {1, 3, 1});
  for (const std::uint64_t id : {3, 0, 0}) node.add_ctrl_deps(id);
  const ParsedRank rank = parse(file_of({compute(0, 1), compute(1, 1), compute(3, 1), node}));
  EXPECT_EQ(rank.after_ids, (std::vector<std::uint64_t>{1, 3, 0}));
  EXPECT_EQ(rank.ops[3].controls, 1u);
}

TEST(ChakraWire, VersionsAreAcceptedFrom004To1AndRefusedByName) {
  for (const char* good : {"", "0.0.4", "1.0.0", "1.0.2-chakra.0.0.4", "symbolic_tensor_network"}) {
    EXPECT_EQ(refusal(file_of({compute(0, 1)}, good)), "accepted") << good;
  }
  for (const char* bad : {"0.0.1", "0.0.3", "2.0.0", "1.0.2-chakra.0.0.1"}) {
    EXPECT_NE(refusal(file_of({compute(0, 1)}, bad)).find(bad), std::string::npos) << bad;
  }
  // A schema written as an attribute counts as well.
  chakra::GlobalMetadata metadata;
  chakra::AttributeProto& schema = *metadata.add_attr();
  schema.set_name("schema");
  schema.set_string_val("1.0.2-chakra.0.0.2");
  std::string stream;
  append_message(stream, metadata);
  EXPECT_NE(refusal(stream).find("0.0.2"), std::string::npos);
}

TEST(ChakraWire, ATruncatedFileIsRefusedWithItsByte) {
  const std::string whole = file_of({compute(0, 1), compute(1, 1, {0})});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ParsedRank rank;
    try {
      parse_chakra_rank("t.0.et", std::string_view(whole).substr(0, size), rank);
      // Only the ends of whole messages are ends of a file.
      EXPECT_LT(rank.ops.size(), 2u);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("t.0.et:1:"), std::string::npos);
    }
  }
  EXPECT_NE(refusal(whole.substr(0, whole.size() - 1)).find("cut short"), std::string::npos);
}

TEST(ChakraWire, WhatCannotBeReadIsRefusedByName) {
  EXPECT_NE(refusal(file_of({collective(4, chakra::GATHER, 8)})).find("node 4: GATHER"),
            std::string::npos);
  EXPECT_NE(refusal(file_of({collective(4, static_cast<chakra::CollectiveCommType>(17), 8)}))
                .find("comm_type 17"), std::string::npos);
  EXPECT_NE(refusal(file_of({make_node(4, static_cast<chakra::NodeType>(9))})).find("node type 9"),
            std::string::npos);
  EXPECT_NE(refusal(file_of({make_node(4, chakra::COMM_SEND_NODE)})).find("comm_dst"),
            std::string::npos);
  EXPECT_NE(refusal(file_of({message(4, true, -1, 8)})).find("comm_dst is -1"), std::string::npos);
  chakra::Node node = make_node(4, chakra::COMP_NODE);
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name("num_ops");
  attribute.set_string_val("many");
  EXPECT_NE(refusal(file_of({node})).find("'num_ops' must be a number"), std::string::npos);
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
  EXPECT_NE(refusal(std::string(200, 'n')).find("not a Chakra trace"), std::string::npos);
}

TEST(ChakraWire, ANumberOfMoreThan64BitsIsRefused) {
  const std::string nine(9, '\xff');
  const std::string most = nine + '\x01';
  WireCursor cursor(most);
  EXPECT_EQ(cursor.varint(), ~std::uint64_t{0});
  EXPECT_TRUE(cursor.is_done());
  for (const char tenth : {'\x02', '\x7f', '\x80', '\x81'}) {
    const std::string more = nine + tenth + '\x00';
    EXPECT_THROW(WireCursor(more).varint(), WireFault) << static_cast<int>(tenth);
  }
  const std::string node = "\x08" + nine + "\x02";  // a node's id
  const std::string stream = file_of({}) + static_cast<char>(node.size()) + node;
  EXPECT_NE(refusal(stream).find("more than 64 bits"), std::string::npos);
  EXPECT_NE(refusal(file_of({}) + nine + "\x02").find("more than 64 bits"), std::string::npos);
}

TEST(ChakraWire, MetadataNodesDefineCommunicators) {
  chakra::Node node = make_node(1, chakra::METADATA_NODE);
  node.mutable_inputs()->set_values(
      R"([{"pg_name": "3", "ranks": [0, 2]}, {"pg_name": "4", "ranks": []}])");
  const ParsedRank rank = parse(file_of({node}));
  ASSERT_EQ(rank.groups.size(), 2u);
  EXPECT_EQ(rank.groups[0].name, "3");
  EXPECT_EQ(rank.groups[0].ranks, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_TRUE(rank.groups[1].ranks.empty());
}

}  // namespace
}  // namespace orrery
