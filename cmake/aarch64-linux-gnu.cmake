# SPDX-License-Identifier: MIT
# Cross build for 64-bit Arm on Debian or Ubuntu: the compiler from gcc-aarch64-linux-gnu, the
# libraries from the folder that tools/arm_sysroot.sh fills, the tests under qemu-aarch64.
#   tools/arm_sysroot.sh build-arm/sysroot
#   cmake -G Ninja -B build-arm -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake \
#     -DHEARTH_ARM_SYSROOT=$PWD/build-arm/sysroot
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(HEARTH_ARM_SYSROOT "" CACHE PATH "Folder that tools/arm_sysroot.sh filled")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEARTH_ARM_SYSROOT)

set(arm_lib ${HEARTH_ARM_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${HEARTH_ARM_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${arm_lib}/pkgconfig:${HEARTH_ARM_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HEARTH_ARM_SYSROOT})
set(ENV{PKG_CONFIG_PATH} "")
# Libraries that libraries need, when linking.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${arm_lib}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${arm_lib}")

# /usr/aarch64-linux-gnu has the compiler's libc; -E gives the programs the others.
set(CMAKE_CROSSCOMPILING_EMULATOR
  "qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${arm_lib}"
  CACHE STRING "Runs the tests")
