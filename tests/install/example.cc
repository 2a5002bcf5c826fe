// SPDX-License-Identifier: MIT
// The public header from C++.
#include <hearth/hearth.h>

#include <cstdio>
#include <cstring>

int main() {
    hearth_error err{};
    hearth_file *file = nullptr;
    if (hearth_file_open("/nonexistent/model.gguf", &file, &err) != HEARTH_E_IO || file) return 1;
    hearth_sampling sampling;
    hearth_sampling_default(&sampling);
    std::printf("hearth %s: %s\n", hearth_version(), err.message);
    return std::strcmp(hearth_status_name(HEARTH_E_IO), "E_IO") == 0 ? 0 : 1;
}
