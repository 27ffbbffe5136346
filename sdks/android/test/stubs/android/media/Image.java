package android.media;

public abstract class Image implements AutoCloseable {
    public static abstract class Plane { public abstract java.nio.ByteBuffer getBuffer(); }
    public abstract Plane[] getPlanes();
    @Override public abstract void close();
}
