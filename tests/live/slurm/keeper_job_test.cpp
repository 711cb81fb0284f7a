#include "live/slurm/keeper_job.hpp"

#include <gtest/gtest.h>

#include "tests/live/slurm/fake_slurm.hpp"

namespace orrery::live {
namespace {

using Words = std::vector<std::string>;

TEST(KeeperJob, NeedsLessThanItsTimeLimitFromItsBeginToItsDeadline) {
  const SlurmRules rules{.partitions = {"gpu", "big"}, .accounts = {"ours"}, .lease_s = 100};
  EXPECT_EQ(keeper_words(rules), (Words{"--parsable",
                                        "-J",
                                        "orrery-keeper",
                                        "-n",
                                        "1",
                                        "-t",
                                        "1",
                                        "-p",
                                        "big",
                                        "-D",
                                        "/",
                                        "-o",
                                        "/dev/null",
                                        "-e",
                                        "/dev/null",
                                        "--no-requeue",
                                        "--export=NONE",
                                        "--begin=now+100",
                                        "--deadline=now+130",
                                        "--comment=orrery-keeper partitions=big+gpu accounts=ours",
                                        "--wrap",
                                        "true"}));
  EXPECT_EQ(keeper_line("17", 100), "update JobId=17 StartTime=now+100 Deadline=now+130");
}

TEST(KeeperJob, DependenciesOfTheUserKeepTheirFormWithoutStatesAndFulfilledOnes) {
  EXPECT_EQ(plain_dependency(""), "");
  EXPECT_EQ(plain_dependency("singleton(unfulfilled)"), "singleton");
  EXPECT_EQ(plain_dependency("afterany:6_*(unfulfilled),afterok:3(fulfilled),after:4+1(failed)"),
            "afterany:6_*,after:4+1");
  EXPECT_TRUE(can_wait_for_keeper("afterok:4(unfulfilled),afterany:6_*(unfulfilled)"));
  EXPECT_FALSE(can_wait_for_keeper("afterok:4(unfulfilled)?afterok:5(unfulfilled)"));
  EXPECT_FALSE(can_wait_for_keeper("afterok:4(failed)"));
  EXPECT_FALSE(can_wait_for_keeper("expand:4(unfulfilled)"));
}

TEST(KeeperFinder, AKeeperIsNoDependencyOfTheUser) {
  FakeSlurm slurm;
  slurm.jobs["1"] = {.dependency = "afterany:9(unfulfilled)"};
  slurm.jobs["2"] = {.dependency = "afterok:1(unfulfilled),afterany:9(unfulfilled)"};
  slurm.jobs["3"] = {.dependency = "afterany:1(unfulfilled)"};
  slurm.jobs["9"] = {.user = "orrery", .per_node = 0, .name = "orrery-keeper"};
  KeeperFinder finder(slurm);
  const std::vector<SlurmJob> jobs = finder.read_jobs();
  EXPECT_EQ(jobs.at(0).keeper, "9");
  EXPECT_FALSE(jobs.at(0).has_unmet_dependency());
  EXPECT_EQ(jobs.at(1).keeper, "9");
  EXPECT_EQ(jobs.at(1).dependency, "afterok:1(unfulfilled)");
  EXPECT_EQ(jobs.at(2).keeper, "");
  EXPECT_TRUE(jobs.at(2).has_unmet_dependency());
  finder.read_jobs();
  EXPECT_EQ(slurm.keeper_readings, 1u) << "an unchanged queue needs no second command";
}

TEST(KeeperFinder, AnIdThatAnotherJobGetsIsNoKeeperAnyMore) {
  FakeSlurm slurm;
  slurm.jobs["1"] = {.dependency = "afterany:9(unfulfilled)"};
  slurm.jobs["9"] = {.user = "orrery", .per_node = 0, .name = "orrery-keeper"};
  KeeperFinder finder(slurm);
  EXPECT_EQ(finder.read_jobs().at(0).keeper, "9");
  slurm.jobs["9"] = {.submit = 1005};
  EXPECT_EQ(finder.read_jobs().at(0).keeper, "");
}

TEST(KeeperFinder, EachKeeperHasItsComment) {
  FakeSlurm slurm;
  slurm.jobs["8"] = {.comment = "of the user"};
  slurm.jobs["9"] = {
      .user = "orrery", .comment = "orrery-keeper partitions= accounts=", .name = "orrery-keeper"};
  const std::vector<SlurmKeeper> keepers = KeeperFinder(slurm).read_keepers();
  ASSERT_EQ(keepers.size(), 1u);
  EXPECT_EQ(keepers[0].user, "orrery");
  EXPECT_EQ(keepers[0].comment, keeper_comment({}));
}

}  // namespace
}  // namespace orrery::live
