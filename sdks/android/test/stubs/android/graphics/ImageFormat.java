package android.graphics;

public class ImageFormat { public static final int JPEG = 256; }
