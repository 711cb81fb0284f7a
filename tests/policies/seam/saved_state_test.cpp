// Saved states of policies: names, versions, conversions.
#include "policies/seam/saved_state.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/seam/stack.hpp"

namespace orrery {
namespace {

/// Policy whose state is a text, saved in one of several versions.
class Versioned : public Policy {
 public:
  /// `oldest`: first version that is converted.
  Versioned(std::uint32_t version, std::uint32_t oldest, std::string text = "")
      : version_(version), oldest_(oldest), text_(std::move(text)) {}

  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList&) override {}
  void save(Archive& archive) const override { archive = text_; }
  void load(const Archive& archive) override { text_ = archive; }
  std::uint32_t state_version() const override { return version_; }
  bool convert_state(Archive& state, std::uint32_t version) const override {
    if (version < oldest_ || version > version_) return false;
    state += " from " + std::to_string(version);
    return true;
  }
  const std::string& text() const { return text_; }

 private:
  std::uint32_t version_, oldest_;
  std::string text_;
};

std::string saved(const std::string& name, const Policy& policy) {
  std::string bytes;
  Archive buffer;
  ByteWriter write(bytes);
  write_state(write, name, policy, buffer);
  return bytes;
}

void load(const std::string& bytes, const std::string& name, Policy& policy) {
  ByteReader read(bytes);
  read_state(read, name, policy);
  EXPECT_TRUE(read.is_at_end());
}

std::string refusal(const std::string& bytes, const std::string& name, Policy& policy) {
  try {
    load(bytes, name, policy);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return {};
}

TEST(SavedState, OfTheSameVersionIsLoadedAsItIs) {
  Versioned policy(3, 3);
  load(saved("a", Versioned(3, 3, "text")), "a", policy);
  EXPECT_EQ(policy.text(), "text");
}

TEST(SavedState, OfAnotherVersionIsConvertedOrRefusedByNameWithBothVersions) {
  Versioned policy(3, 2);
  load(saved("a", Versioned(2, 0, "text")), "a", policy);
  EXPECT_EQ(policy.text(), "text from 2");
  EXPECT_EQ(refusal(saved("a", Versioned(1, 0, "old")), "a", policy),
            "policy 'a': expected a saved state of version 3, found version 1, which the policy "
            "does not convert; continue with the policy that saved the state, or begin the run "
            "again");
  EXPECT_NE(refusal(saved("a", Versioned(4, 0, "new")), "a", policy).find("found version 4"),
            std::string::npos);
  EXPECT_EQ(policy.text(), "text from 2") << "a refused state changes nothing";
}

TEST(SavedState, OfAnotherPolicyIsRefusedWithBothNames) {
  Versioned policy(0, 0);
  EXPECT_EQ(refusal(saved("b", Versioned(0, 0)), "a", policy),
            "expected the saved state of policy 'a', found that of 'b'; continue with the policies "
            "that saved the state, in their order");
}

TEST(SavedState, IsTransferredInTheSameWay) {
  Versioned heir(2, 1), other(2, 2);
  transfer_state(Versioned(1, 0, "text"), heir, "a");
  EXPECT_EQ(heir.text(), "text from 1");
  EXPECT_THROW(transfer_state(Versioned(1, 0, "text"), other, "a"), Error);
}

TEST(SavedState, OfAStackHasTheNamesAndVersionsOfItsMembers) {
  const auto stack = [](const std::string& name, std::unique_ptr<Versioned> policy) {
    std::vector<PolicyStack::Member> members;
    members.push_back({.name = name, .policy = std::move(policy), .parameters = nullptr});
    return PolicyStack(std::move(members));
  };
  Archive archive;
  stack("a", std::make_unique<Versioned>(1, 0, "text")).save(archive);
  PolicyStack converts = stack("a", std::make_unique<Versioned>(2, 1));
  converts.load(archive);
  EXPECT_EQ(dynamic_cast<Versioned&>(*converts.members()[0].policy).text(), "text from 1");
  EXPECT_THROW(stack("a", std::make_unique<Versioned>(2, 2)).load(archive), Error);
  EXPECT_THROW(stack("b", std::make_unique<Versioned>(1, 1)).load(archive), Error);
}

}  // namespace
}  // namespace orrery
