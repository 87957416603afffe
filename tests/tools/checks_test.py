#!/usr/bin/env python3
"""The checks in tools/ refuse what they are there to refuse, and let the rest pass.

Each test makes a small tree, breaks one rule in it and expects the fault at its place.
"""

import pathlib
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
GOOD = {
    "CMakeLists.txt": "set(HETHUB_FOLDERS base plan accel\n  train predict)  # bottom up\n",
    "hethub/base/CMakeLists.txt": "hethub_library(base SOURCES a.cpp)\n",
    "hethub/base/a.h": "#pragma once\n",
    "hethub/base/a.cpp": '#include "hethub/base/a.h"\n',
    "hethub/plan/CMakeLists.txt": "hethub_library(plan\n  SOURCES a.cpp\n  DEPS base)\n",
    "hethub/plan/a.cpp": '#include "hethub/base/a.h"\n',
    "hethub/accel/CMakeLists.txt": "hethub_library(accel DEPS base)\n",
    "hethub/accel/cpu/CMakeLists.txt": "hethub_library(accel_cpu SOURCES b.cpp DEPS accel base)\n",
    "hethub/accel/cpu/b.cpp": '#include "hethub/accel/cpu/b.h"\n',
    "hethub/train/CMakeLists.txt": "hethub_library(train DEPS base plan accel_cpu)\n",
    "hethub/train/a.cpp": '#include "hethub/accel/cpu/b.h"\n#include "hethub/plan/a.h"\n',
    "hethub/predict/CMakeLists.txt": "hethub_library(predict DEPS base plan)\n",
    "cli/CMakeLists.txt": "set(VERB_DEPS base\n  train\n)  # down\n",
    "cli/main.cpp": '#include "hethub/train/a.h"\n',
}


class Checks(unittest.TestCase):
    def run_check(self, check, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**GOOD, **changes}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return subprocess.run([TOOLS / check, root], capture_output=True, text=True)

    def expect_pass(self, check, changes):
        result = self.run_check(check, changes)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)

    def expect_fault(self, check, changes, place):
        result = self.run_check(check, changes)
        self.assertEqual((result.returncode, result.stderr), (1, ""), result.stdout)
        self.assertIn(place, result.stdout)

    def test_a_tree_that_keeps_the_rules_passes(self):
        self.expect_pass("check_includes", {})
        self.expect_pass("check_lengths", {})

    def test_an_include_that_deps_do_not_name_is_refused(self):
        self.expect_fault("check_includes",
                          {"hethub/plan/a.cpp": '\n  #  include "hethub/accel/b.h"\n'},
                          "hethub/plan/a.cpp:2: includes hethub/accel")
        self.expect_fault("check_includes", {"cli/main.cpp": '#include "hethub/predict/a.h"\n'},
                          "cli/main.cpp:1: includes hethub/predict")

    def test_a_dependency_of_a_dependency_is_not_enough(self):
        self.expect_fault("check_includes", {"cli/main.cpp": '#include "hethub/plan/a.h"\n'},
                          "cli/main.cpp:1: includes hethub/plan")

    def test_a_dependency_that_is_only_a_comment_is_none(self):
        self.expect_fault("check_includes",
                          {"hethub/plan/CMakeLists.txt": "hethub_library(plan # DEPS base\n)\n"},
                          "hethub/plan/a.cpp:1")

    def test_a_dependency_that_points_up_is_refused(self):
        self.expect_fault("check_includes",
                          {"hethub/base/CMakeLists.txt": "\nhethub_library(base DEPS plan)\n"},
                          "hethub/base/CMakeLists.txt:2: base depends on plan")

    def test_train_never_reaches_predict(self):
        order = GOOD["CMakeLists.txt"].replace("train predict", "predict train")
        self.expect_fault("check_includes",
                          {"CMakeLists.txt": order,
                           "hethub/train/CMakeLists.txt":
                               "hethub_library(train DEPS base plan accel predict)\n"},
                          "train reaches predict")

    def test_what_thinks_never_reaches_what_does(self):
        self.expect_fault("check_includes",
                          {"hethub/predict/CMakeLists.txt": "hethub_library(predict DEPS train)\n"},
                          "predict reaches accel")

    def test_a_folder_outside_the_list_is_refused(self):
        self.expect_fault("check_includes",
                          {"hethub/util/CMakeLists.txt": "hethub_library(util)\n"},
                          "hethub/util is not in HETHUB_FOLDERS")

    def test_a_dependency_that_does_not_exist_is_refused(self):
        self.expect_fault("check_includes",
                          {"hethub/plan/CMakeLists.txt": "hethub_library(plan DEPS base bsae)\n"},
                          "bsae, which is no folder")

    def test_a_file_over_600_lines_is_refused_and_one_over_400_is_told(self):
        self.expect_pass("check_lengths", {"hethub/base/a.cpp": "\n" * 600})
        self.assertIn("hethub/base/a.cpp:1: warning",
                      self.run_check("check_lengths", {"hethub/base/a.cpp": "\n" * 401}).stdout)
        self.expect_fault("check_lengths", {"hethub/base/a.cpp": "\n" * 601}, "a.cpp:1: 601 lines")

    def test_a_function_over_80_lines_is_refused_wherever_it_stands(self):
        body = "  g('{', \"}{\", 1'000);  // {\n" * 79
        heads = ["int f(int a) {", "A::A(int a) : a_(a), b_{a} {", "auto f() const -> std::pair<A, B> {",
                 "TEST(A, is_long) {", "bool A::operator()(int a) const noexcept {",
                 "std::vector<int> f(std::span<const int> x = {}) {"]
        for head in heads:
            for before, after in [("", ""), ("namespace a {\n", "}\n"), ("struct A {\n", "};\n")]:
                start = before.count("\n") + 1
                self.expect_pass("check_lengths",
                                 {"cli/main.cpp": before + head + "\n" + body[:-29] + "}\n" + after})
                text = before + head + "\n" + body + "  for (;;) {}\n}\n" + after
                self.expect_fault("check_lengths", {"cli/main.cpp": text},
                                  f"cli/main.cpp:{start}: 82 lines")

    def test_long_lists_and_types_are_no_functions(self):
        rows = "  {f(1), 2},\n" * 100
        self.expect_pass("check_lengths", {"cli/main.cpp":
                                           "constexpr std::array<Row, 100> kRows = {{\n" + rows + "}};\n"
                                           "struct A {\n" + "  int f();\n" * 100 + "};\n"
                                           'const char* kText = R"(\n' + "f() {\n" * 100 + ')";\n'})


if __name__ == "__main__":
    unittest.main()
