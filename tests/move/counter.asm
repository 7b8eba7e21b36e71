; Counts into its second sector as long as it runs: at byte 0 its steps, at byte 4 its starts.
bits 16
org 0x7c00
    cli
    xor ax, ax
    mov ds, ax
    mov es, ax
    mov ss, ax
    mov sp, 0x7c00
    mov [drive], dl
    mov ah, 0x42
    mov si, packet
    int 0x13
    inc dword [0x8004]
step:
    inc dword [0x8000]
    mov ax, 0x4300
    mov si, packet
    mov dl, [drive]
    int 0x13
    sti
    hlt
    jmp step
packet:
    db 16, 0
    dw 1
    dw 0x8000, 0
    dq 1
drive:
    db 0
    times 510 - ($ - $$) db 0
    dw 0xaa55
