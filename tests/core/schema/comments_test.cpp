#include "core/schema/comments.hpp"

#include <gtest/gtest.h>
#include <google/protobuf/descriptor.pb.h>

#include "core/error.hpp"
#include "core/schema/json.hpp"
#include "tests/core/schema/sample.pb.h"

namespace orrery {
namespace {

/// Descriptor set as protoc --include_source_info writes it: comments by their paths of indices.
class Set {
 public:
  Set() {
    file_ = set_.add_file();
    Sample::descriptor()->file()->CopyTo(file_);
  }
  void say(std::initializer_list<int> path, const std::string& above, const std::string& beside) {
    auto& location = *file_->mutable_source_code_info()->add_location();
    for (const int step : path) location.add_path(step);
    location.set_leading_comments(above);
    location.set_trailing_comments(beside);
  }
  std::string bytes() const { return set_.SerializeAsString(); }

 private:
  google::protobuf::FileDescriptorSet set_;
  google::protobuf::FileDescriptorProto* file_;
};

constexpr int kMessage = 4, kField = 2;
constexpr int kSample = 2, kTitle = 0, kInner = 10;  // indices in sample.proto

TEST(SchemaComments, AreFoundByTheirPathAndHeldInOneLine) {
  Set set;
  set.say({kMessage, kSample}, " What is\n sampled.\n", "");
  set.say({kMessage, kSample, kField, kTitle}, " Its name,\n", "  as people say it\n");
  set.say({kMessage, kSample, kField, kTitle, 8}, " An option's place is nobody's.\n", "");
  const SchemaComments comments(set.bytes());
  EXPECT_EQ(comments.of(*Sample::descriptor()), "What is sampled.");
  EXPECT_EQ(comments.of(*Sample::descriptor()->field(kTitle)), "Its name, as people say it");
  EXPECT_EQ(comments.of(*Sample::descriptor()->field(1)), "");
  EXPECT_EQ(SchemaComments().of(*Sample::descriptor()), "");
}

TEST(SchemaComments, StandInTheJsonSchema) {
  Set set;
  set.say({kMessage, 0}, " Inside.\n", "");
  set.say({kMessage, kSample, kField, kInner}, "", " what is in it\n");
  const auto schema =
      json_schema(*Sample::descriptor(), {.comments = SchemaComments(set.bytes())});
  EXPECT_EQ(schema["properties"]["inner"]["description"], "what is in it");
  EXPECT_EQ(schema["$defs"]["SampleInner"]["description"], "Inside.");
  EXPECT_EQ(schema["$defs"]["SampleInner_partial"]["description"], "Inside.");
}

TEST(SchemaComments, BytesThatAreNoDescriptorSetAreADefect) {
  EXPECT_THROW(SchemaComments("\xff\xff"), Error);
}

TEST(JsonSchema, ParametersFollowTheName) {
  const auto schema = json_schema(
      *Sample::descriptor(),
      {.known = {{"orrery.Sample.title", {"one", "two"}}},
       .parameters = {{"test-fast", TestFastParameters::descriptor()},
                      {"test-slow", TestSlowParameters::descriptor()}}});
  EXPECT_EQ(schema["properties"]["title"]["examples"].dump(), R"(["one","two"])");
  const auto& policy = schema["$defs"]["SamplePolicy"];
  EXPECT_EQ(policy["properties"]["name"]["enum"].dump(), R"(["test-fast","test-slow"])");
  EXPECT_EQ(policy["allOf"][1]["if"]["properties"]["name"]["const"], "test-slow");
  EXPECT_EQ(policy["allOf"][1]["then"]["properties"]["parameters"]["$ref"],
            "#/$defs/TestSlowParameters");
  EXPECT_EQ(schema["$defs"]["TestSlowParameters"]["properties"]["patience"]["default"], 11);
  // Two types inside others have one name, and are two.
  EXPECT_TRUE(schema["$defs"]["TestFastParametersRule"]["properties"].contains("speed"));
  EXPECT_TRUE(schema["$defs"]["TestSlowParametersRule"]["properties"].contains("patience"));
}

}  // namespace
}  // namespace orrery
