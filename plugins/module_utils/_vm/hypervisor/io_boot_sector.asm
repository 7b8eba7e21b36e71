; Copyright (c) the reduced.footprint authors
; GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
; SPDX-License-Identifier: GPL-3.0-or-later
;
; A minimal test guest: a boot sector that switches from real through protected
; to 64-bit long mode and executes what every 64-bit kernel executes first.
;
; A hypervisor that runs 16-bit code may still hang at the switch to long mode,
; so each stage is reported on the first serial port: R(eal), P(rotected), L(ong),
; M (model specific registers written), W (busy loop completed), I (exception
; handled through the 64-bit interrupt table), T (woken by a timer interrupt). It
; ends with a write to QEMU's isa-debug-exit device (port 0xf4);
; QEMU then exits with the exit code 2 * value + 1:
;   value 0x15 (exit code 43): proven;
;   value 0x16 (exit code 45): the CPU model has no long mode.
;
; Build: nasm -f bin -o boot_sector.bin boot_sector.asm
; The bytes are in io_boot_sector.py; a unit test compares both.

SERIAL  equ 0x3f8
EXIT    equ 0xf4
PROVEN  equ 0x15
NO_LM   equ 0x16
PML4    equ 0x1000              ; page tables: 0x1000 PML4, 0x2000 PDPT, 0x3000 PD
IDT     equ 0x4000

        org 0x7c00
        bits 16

start:  jmp 0:real              ; some firmware starts at 07c0:0000
real:   cli
        cld
        xor ax, ax
        mov ds, ax
        mov es, ax
        mov ss, ax
        mov sp, 0x7c00
        mov al, 'R'
        mov dx, SERIAL
        out dx, al

        in al, 0x92             ; address line 20 on
        or al, 2
        and al, 0xfe            ; bit 0 would reset the machine
        out 0x92, al

        mov eax, 0x80000000
        cpuid
        cmp eax, 0x80000001
        jb no_long_mode
        mov eax, 0x80000001
        cpuid
        bt edx, 29
        jnc no_long_mode

        xor eax, eax            ; the tables and the interrupt table start as zeroes
        mov di, PML4
        mov cx, 0x4000 / 4
        rep stosd
        mov word [PML4], 0x2000 | 3
        mov word [PML4 + 0x1000], 0x3000 | 3
        mov word [PML4 + 0x2000], 0x83          ; the first 2 MiB as they are
        mov word [PML4 + 0x2000 + 8], 0x83      ; and again, 2 MiB higher

        lgdt [gdt_pointer]
        mov eax, cr0
        or al, 1
        mov cr0, eax
        jmp 0x08:protected

no_long_mode:
        mov al, NO_LM
        out EXIT, al
        jmp $

        bits 32
protected:
        mov ax, 0x10
        mov ds, ax
        mov es, ax
        mov ss, ax
        mov esp, 0x7c00
        mov al, 'P'
        mov dx, SERIAL
        out dx, al

        mov eax, cr4
        or eax, 1 << 5          ; physical address extension
        mov cr4, eax
        mov eax, PML4
        mov cr3, eax
        mov ecx, 0xc0000080     ; EFER
        rdmsr
        or eax, (1 << 8) | 1    ; long mode, syscall
        wrmsr
        mov eax, cr0
        bts eax, 31             ; paging: this is where long mode begins
        mov cr0, eax
        jmp 0x18:long_mode

        bits 64
long_mode:
        mov dx, SERIAL
        mov al, 'L'
        out dx, al

        mov rbx, 0x0123456789abcdef     ; 64-bit arithmetic through the second mapping
        lea rdi, [0x200000 + 0x8000]
        mov [rdi], rbx
        mov rax, [0x8000]
        cmp rax, rbx
        jne $

        mov ecx, 0xc0000082     ; LSTAR, the system call entry
        xor edx, edx
        mov eax, long_mode
        wrmsr
        mov ecx, 0xc0000101     ; GS base
        mov eax, 0x8000
        wrmsr
        cmp [gs:0], rbx
        jne $
        mov dx, SERIAL
        mov al, 'M'
        out dx, al

        mov ecx, 1 << 26        ; busy loop: an extremely slow processor is not usable
work:   dec ecx
        jnz work
        mov al, 'W'
        out dx, al

        mov edi, IDT + 6 * 16   ; vector 6: undefined opcode
        mov dword [rdi], (0x18 << 16) | (trapped - $$ + 0x7c00)
        mov dword [rdi + 4], 0x8e00
        lidt [idt_pointer]
        ud2
        jmp $

trapped:
        mov dx, SERIAL
        mov al, 'I'
        out dx, al

        ; vector 8: the timer, where the firmware left it
        mov word [IDT + 8 * 16], ticked - $$ + 0x7c00
        mov byte [IDT + 8 * 16 + 2], 0x18
        mov byte [IDT + 8 * 16 + 5], 0x8e
        mov al, 0xfe            ; only the timer
        out 0x21, al
        sti
        hlt
        jmp $

ticked:
        mov dx, SERIAL
        mov al, 'T'
        out dx, al
        mov al, PROVEN
        out EXIT, al
        jmp $

        align 8
gdt:    dq 0
        dq 0x00cf9a000000ffff   ; 0x08: 32-bit code
        dq 0x00cf92000000ffff   ; 0x10: data
        dq 0x00af9a000000ffff   ; 0x18: 64-bit code
gdt_pointer:
        dw $ - gdt - 1
        dd gdt
idt_pointer:
        dw 16 * 16 - 1
        dq IDT

        times 510 - ($ - $$) db 0
        dw 0xaa55
