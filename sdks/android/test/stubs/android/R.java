package android;

public final class R { public static final class string { public static final int ok = 1, cancel = 2; } }
